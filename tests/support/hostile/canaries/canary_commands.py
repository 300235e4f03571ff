"""Every command of hermesops, once, with arguments that mean something in a small simulated fleet.

A command that is in neither list fails ``test_every_command_is_run_or_explained``.
"""

import asyncio
import signal
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from hermesops.cli import root
from tests.support.real.commands.command import Command, Ran

COMMANDS: Sequence[str] = (
    "local up",
    "local status",
    "doctor",
    "settings show",
    "settings show --schema",
    "settings get cell_size",
    "settings set cell_size 41",
    "env list",
    "env show",
    "env check",
    "registry migrate",
    "registry check",
    "registry copies",
    "registry copy",
    "image build",
    "image list",
    "secrets list",
    "secrets check",
    "provision ada --plan light",
    "provision bob --plan light",
    "instance list",
    "instance show ada",
    "wait ada --timeout 5s",
    "instance timeline ada",
    "instance settings ada",
    "instance policy ada",
    "instance model-providers",
    "instance model-provider ada",
    "instance model-provider ada --provider openai --model gpt-5.2 --key-from {managed} --reason canary",
    "instance model-provider ada --clear --reason canary",
    "instance verify ada",
    "instance logs ada",
    "instance chat ada hello --reason canary",
    "instance exec ada --reason canary -- env",
    "instance shell ada --reason canary",
    "instance export ada --reason canary",
    "instance break-glass ada --close --reason canary",
    "instance restart ada",
    "instance reboot ada --reason t",
    "release build --managed {managed} --note one",
    "release list",
    "release show {release}",
    "release verify {release}",
    "release floor",
    "release signers show",
    "release signers set {signers} --reason canary",
    "release signers restore",
    "rollout preview {release} --all",
    "rollout start {release} --all --soak 1s --settle 1s --vitals none --stages 100% --hook smoke",
    "rollout list --all",
    "rollout status",
    "rollout history {rollout}",
    "rollout explain {rollout}",
    "rollout replay {rollout}",
    "rollout pause {rollout}",
    "rollout resume {rollout}",
    "rollout promote {rollout}",
    "rollout approve {rollout}",
    "rollout retry {rollout}",
    "rollout abort {rollout}",
    "rollback ada",
    "alert list",
    "fleet top",
    "alert ack GatewayDown --reason canary",
    "alert silence --list",
    "rollout freeze --reason canary",
    "rollout freezes",
    "rollout unfreeze {freeze}",
    "stack list",
    "stack preview --all",
    "stack up --all",
    "stack refresh --all",
    "stack outputs {cell}",
    "stack baseline",
    "stack compare {managed}",
    "stack export {cell}",
    "stack import {cell} {managed}",
    "stack rollback-state {cell}",
    "stack destroy {cell}",
    "cell list",
    "cell show {cell}",
    "pool list",
    "job run pools",
    "pool drain",
    "backup create ada",
    "backup list ada",
    "job run backups",
    "backup check ada",
    "backup prune ada --yes",
    "backup rotate ada",
    "backup restore ada --yes",
    "drill restore ada",
    "snapshot create ada",
    "snapshot list ada",
    "snapshot delete ada {snapshot} --yes",
    "identity list",
    "identity show ada",
    "identity renew ada",
    "identity trust {trust}",
    "identity host 127.0.0.1 --out {host_files} --reason canary",
    "identity revoke bob --yes",
    "token list",
    "token renew ada",
    "token revoke ada --yes",
    "token rotate --where user=ada --reason canary",
    "instance suspend ada --reason canary",
    "instance resume ada --reason canary",
    "instance resize ada --plan heavy --yes",
    "instance move ada --yes",
    "job list",
    "job run tokens",
    "billing apply {text} --signature t=1,v1=aa",
    "billing apply",
    "billing list",
    "billing show 1",
    "billing retry 1 --reason canary",
    "billing dismiss 1 --reason canary",
    "billing sweep --dry-run",
    "user show ada",
    "api status",
    "connector status",
    "user request list",
    "user caller list",
    "user caller revoke 11111111-2222-4333-8444-555555555555 --reason canary",
    "message list",
    "message show in-1",
    "message retry out-1 --reason canary",
    "messenger list",
    "messenger check",
    "messenger register telegram --reason canary",
    "job run lifecycle",
    "fleet status --live --ask",
    "fleet cost",
    "fleet usage",
    "fleet outdated",
    "fleet drift",
    "fleet changes --since 1h",
    "fleet converge ada",
    "fleet repair adopt nobody --yes",
    "fleet repair remove-orphan nobody --yes",
    "fleet repair accept-size ada",
    "operation list",
    "operation show {operation}",
    "operation continue {operation}",
    "operation abandon {operation} --yes",
    "local fault kinds",
    "local fault list",
    "local fault set refuse --times 1",
    "local fault clear",
    "secrets rotate registry.key",
    "secrets set api.key --from {managed}",
    "approval sign {managed} --save {managed}.approval",
    "approval show {managed}",
    "approval request ada --save {managed}.list",
    "relay list",
    "relay serve --listen 127.0.0.1:0",
    "alert check",
    "runbook list",
    "runbook show machine-gone",
    "runbook run instance-suspended --instance ada --yes",
    "drill list",
    "drill run gateway-stopped --yes",
    "audit log",
    "audit verify",
    "release revoke {release} --reason canary --yes",
    "worker",
    "monitor --once",
    "monitor --check",
    "identity serve --listen 127.0.0.1:0",
    "registry rebuild",
    "registry restore",
    "registry restore --already-restored --reason canary",
    "instance terminate bob --reason canary --yes",
    "local down",
)
"""In order; ``{word}`` is filled in by what commands before it made."""

ENDLESS: Mapping[str, float] = {"worker": 6.0, "identity serve": 4.0, "relay serve": 4.0, "instance shell": 10.0}
"""Seconds after which those are told to end that do not by themselves."""

EXPLAINED: Mapping[str, str] = {
    "api openapi": "prints what is committed, and reads no secret; tests/unit/api/test_openapi.py",
    "api serve": "serves until a signal; the first browser starts it: tests/e2e/test_chat_page.py",
    "api credentials": "writes keys into files; tests/contract/platform/test_user_credentials.py reads what it prints",
    "api connections": "serves until a signal, outside the local world: tests/contract/api/test_serve_connections.py",
    "console credentials": "writes a key into a file; tests/unit/platform/parts/test_tls.py",
    "console open": "serves until a signal; tests/contract/console/test_pages.py looks for secrets on all pages",
    "console serve": "serves until a signal, outside the local world: tests/contract/console/test_served.py",
    "connector serve": "serves until a signal: tests/contract/connector",
    "release check-upstream": "reads one list and no secret; tests/unit/machines/capabilities/test_upstream.py",
    "local serve": "local up starts it; it runs during all the others, and is watched",
    "platform bootstrap": "needs an AWS account; tests/contract/platform/test_bootstrap.py",
    "platform show": "needs machines; tests/soak/test_platform.py looks for keys in all that commands say there",
    "platform logs": "as platform show",
    "platform open": "serves until Ctrl-C, and needs monitoring; tests/unit/observability/test_browser.py",
    "platform restart": "as platform show",
    "platform connect": "as platform show",
    "platform restore": "as platform show",
    "platform bundle": "fetches all that hermesops needs; tests/contract/machines/test_platform_bundle.py",
    "relay admit": "needs a request that a service signed with a key of its own; tests/e2e/test_relay.py",
    "relay revoke": "needs a service that was admitted; tests/e2e/test_relay.py",
}
"""What is not run by name, and why."""

SHARD = (
    *("local up", "registry migrate", "image build", "provision ada", "stack preview", "release build", "worker"),
    *("secrets list", "local down"),
)
"""What is run in every ``make test``: it starts a child of each kind that a simulated world has."""

_LONGEST_S = 300.0


def words_of(path: str) -> Iterator[str]:
    """Lines that run a command."""
    yield from (line for line in COMMANDS if f"{line} ".startswith(f"{path} "))


def all_commands() -> Iterator[str]:
    """Every command that the command line has, by its words."""
    yield from _walk(typer.main.get_command(root.app), ())


def _walk(command: Any, path: tuple[str, ...]) -> Iterator[str]:  # noqa: ANN401 - Typer's own classes are private
    if not hasattr(command, "list_commands"):
        yield " ".join(path)
        return
    context = typer.Context(command)
    for name in command.list_commands(context):
        yield from _walk(command.get_command(context, name), (*path, name))


async def run(command: Command, lines: Sequence[str], known: dict[str, str]) -> list[Ran]:
    """Run commands with ``--verbose``; what they end with, which need not be 0, is told by the list that is returned.

    Args:
        command: Runs them.
        lines: Of ``COMMANDS``.
        known: What stands for ``{word}``; what commands make is added.
    """
    done = list[Ran]()
    for line in lines:
        words = [word.format_map(_Known(known)) for word in line.split()]
        done.append(await _one(command, ["--verbose", *words], line))
        sys.stderr.write(f"{done[-1].exit_code:4d}  hermesops {' '.join(words)}\n")
        await _learn(command, line, known)
    return done


async def _one(command: Command, words: Sequence[str], line: str) -> Ran:
    limit = next((seconds for path, seconds in ENDLESS.items() if line.startswith(path)), _LONGEST_S)
    process = await command.start(*words)
    ending = asyncio.create_task(process.communicate(b""))
    if not (await asyncio.wait({ending}, timeout=limit))[0]:
        process.send_signal(signal.SIGTERM)
        if not (await asyncio.wait({ending}, timeout=60))[0]:
            process.kill()
    stdout, stderr = await ending
    ran = Ran(
        tuple(words), process.returncode or 0, stdout.decode(errors="replace"), stderr.decode(errors="replace"), 0
    )
    command.said.append(ran)
    return ran


class _Known(dict[str, str]):
    def __missing__(self, key: str) -> str:
        return f"no-{key}"


_MADE = {
    "release build": ("release", ("release", "list"), "releases", "id"),
    "rollout start": ("rollout", ("rollout", "list", "--all"), "rollouts", "id"),
    "rollout freeze": ("freeze", ("rollout", "freezes"), "freezes", "id"),
    "provision bob": ("cell", ("cell", "list"), "cells", "cell"),
    "snapshot create": ("snapshot", ("snapshot", "list", "ada"), "snapshots", "snapshot"),
    "operation list": ("operation", ("operation", "list"), "operations", "id"),
}
"""What a command makes: its word, how it is listed, and where the listing has it."""


async def _learn(command: Command, line: str, known: dict[str, str]) -> None:
    for path, (word, listing, key, name) in _MADE.items():
        if line.startswith(path):
            ran = await command.run(*listing, "--json")
            rows = ran.json.get(key) if ran.exit_code == 0 else None
            if rows:
                known[word] = str(rows[-1].get(name, ""))
