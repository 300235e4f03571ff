"""A name that does not exist is a slip of whoever typed it, for every noun: exit 2, what is nearest, what lists it."""

import re
import shlex
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from tests.support.real.commands.command import Command, Ran, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import told, vendor_of

pytestmark = pytest.mark.turns(12)

USER = "ada-lovelace"
SLIP = "ada-lovelase"
WHY = ("--reason", "t")


@dataclass(frozen=True)
class World:
    """A world in which there is one thing of each noun.

    Attributes:
        names: Placeholders and what they stand for; ``X~`` is a name with a slip near that of ``X``.
    """

    command: Command
    names: dict[str, str]

    def typed(self, words: str) -> list[str]:
        return [self.names.get(word, word) for word in shlex.split(words)]


def slip(name: str) -> str:
    """The same with one character of its first eight changed."""
    other = "0" if name[5] != "0" else "1"
    return f"{name[:5]}{other}{name[6:]}"


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[World]:
    async with local_world(tmp_path_factory.mktemp("names"), driver="sim") as command:
        instance = (await command.ok("provision", USER, "--plan", "light", "--json")).json["instance"]
        await command.ok("backup", "create", USER)
        await command.ok("snapshot", "create", USER)
        release = await built(command, "good")
        quick = ("--soak", "1s", "--settle", "1s", "--vitals", "none")
        await command.ok("rollout", "start", release, "--all", *quick)
        await command.ok("rollout", "freeze", "--until", "2099-01-01T00:00:00Z", *WHY)
        stray = f"hermes-local-cell1-{uuid.uuid4().hex[:12]}"
        async with vendor_of(command.home / "local" / "world") as api:
            listed = await told(api, f"/machines/{instance['machine_id']}")
            order = {"server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
            await told(api, f"/machines/{(await api.post('/machines', json={'name': stray, **order})).json()['id']}")
        outcomes = {
            "ROLLOUT": (await command.ok("rollout", "list", "--all", "--json")).json["rollouts"][0]["id"],
            "OPERATION": (await command.ok("operation", "list", "--all", "--json")).json["operations"][0]["id"],
            "FREEZE": (await command.ok("rollout", "freezes", "--json")).json["freezes"][0]["id"],
            "BACKUP": (await command.ok("backup", "list", USER, "--json")).json["backups"][0]["backup"],
            "SNAPSHOT": (await command.ok("snapshot", "list", USER, "--json")).json["snapshots"][0]["snapshot"],
            "RELEASE": release,
            "STRAY": stray,
            "MACHINE": instance["machine_name"],
        }
        yield World(command, {**outcomes, **{f"{name}~": slip(value) for name, value in outcomes.items()}})


OF_A_USER = [
    *(f"instance {verb} {SLIP}" for verb in ("settings", "policy", "model-provider", "show", "verify", "logs")),
    f"instance restart {SLIP}",
    *(f"instance {verb} {SLIP} --reason t" for verb in ("export", "suspend", "resume", "terminate", "shell")),
    f"instance chat {SLIP} hello --reason t",
    f"instance exec {SLIP} --reason t -- true",
    f"instance resize {SLIP} --plan heavy --reason t",
    f"instance move {SLIP} --region hel1 --reason t",
    *(f"backup {verb} {SLIP}" for verb in ("list", "create", "check", "prune", "rotate", "restore")),
    f"backup restore {SLIP} --onto-new-machine --reason t --yes",
    *(f"snapshot {verb} {SLIP}" for verb in ("list", "create")),
    f"snapshot delete {SLIP} abc",
    *(f"identity {verb} {SLIP}" for verb in ("show", "renew")),
    f"identity revoke {SLIP} --reason t",
    *(f"token {verb} {SLIP}" for verb in ("list", "renew", "revoke")),
    *(f"fleet {verb} {SLIP}" for verb in ("repair accept-size", "converge")),
    f"fleet drift --where user={SLIP}",
    f"rollout preview RELEASE --where user={SLIP}",
    f"rollout explain ROLLOUT --user {SLIP}",
    f"rollback {SLIP}",
    f"drill restore {SLIP}",
]

OF_A_CELL = [
    *(f"stack {verb} cel1" for verb in ("preview", "up", "refresh", "destroy", "rollback-state")),
    "stack import cel1 /dev/null",
    *(f"{verb} cel1" for verb in ("pool list", "pool drain", "job run pools")),
    "cell show cel1",
    "cell list --where cell=cel1",
    "fleet drift --where cell=cel1",
    "instance list --cell cel1",
    f"instance move {USER} --cell cel1 --reason t",
]

OTHERS = {
    **{f"rollout {verb} ROLLOUT~": "ROLLOUT" for verb in ("status", "history", "explain", "replay", "promote")},
    **{f"rollout {verb} ROLLOUT~ --reason t": "ROLLOUT" for verb in ("pause", "resume", "approve", "abort", "retry")},
    "rollback --rollout ROLLOUT~": "ROLLOUT",
    **{f"operation {verb} OPERATION~": "OPERATION" for verb in ("show", "continue")},
    "operation abandon OPERATION~ --reason t": "OPERATION",
    "rollout unfreeze FREEZE~ --reason t": "FREEZE",
    f"backup check {USER} --snapshot BACKUP~": "BACKUP",
    f"backup restore {USER} --snapshot BACKUP~ --reason t --yes": "BACKUP",
    f"snapshot delete {USER} SNAPSHOT~": "SNAPSHOT",
    **{f"release {verb} RELEASE~": "RELEASE" for verb in ("show", "verify")},
    "release show RELEASE --against RELEASE~": "RELEASE",
    "release revoke RELEASE~ --reason t --yes": "RELEASE",
    **{f"rollout {verb} RELEASE~ --all": "RELEASE" for verb in ("preview", "start")},
    "rollback --to RELEASE~": "RELEASE",
    f"rollback {USER} --to RELEASE~": "RELEASE",
    "image build hermes-bass": "hermes-base",
    "rollout start hermes-bass --all --action machine": "hermes-base",
    "stack export cel1": "cell1",
    "stack outputs cel1": "cell1",
    "stack up cell1 --target MACHINE~": "MACHINE",
    "rollback --direct --machine MACHINE~": "MACHINE",
    **{f"fleet repair {kind} STRAY~": "STRAY" for kind in ("adopt", "remove-orphan")},
    "job run backup": "backups",
    "secrets set registry.kay": "registry.key",
    "secrets rotate registry.kay --reason t": "registry.key",
    "secrets check registry.kay": "registry.key",
    f"token renew {USER} --purpose chatt": "chat",
    f"token revoke {USER} --purpose platfrom": "platform",
    "local fault set sold-aut": "sold-out",
    "--env loca instance list": "local",
}

SHOWN = {"ROLLOUT", "OPERATION", "BACKUP", "SNAPSHOT"}
"""Nouns whose things are told by the first characters of their ids."""


def told_in(ran: Ran) -> list[str]:
    """The error and its hint: one line each, whatever was narrated before."""
    lines = [line for line in ran.stderr.splitlines() if line.startswith(("error: ", "hint: "))]
    assert lines == ran.stderr.splitlines()[-2:], str(ran)
    return lines


@pytest.mark.parametrize(
    "nearest_by_words",
    [dict.fromkeys(OF_A_USER, USER), dict.fromkeys(OF_A_CELL, "cell1"), OTHERS],
    ids=["user", "cell", "other"],
)
async def test_a_name_with_a_slip(world: World, nearest_by_words: dict[str, str]) -> None:
    hints = set()
    for words, nearest in nearest_by_words.items():
        ran = await world.command.run(*world.typed(words), timeout_s=120)
        assert ran.exit_code == 2, str(ran)
        error, hint = told_in(ran)
        named = world.names.get(nearest, nearest)
        beginning = named[:8] if nearest in SHOWN else named
        assert re.fullmatch(r"error: no [a-z ]+ '.*'.*; nearest: .*", error), str(ran)
        assert beginning in error.partition("; nearest: ")[2].split(", "), str(ran)
        hints.add(hint)
    for hint in hints:
        await works(world, hint)


async def works(world: World, hint: str) -> None:
    """What a hint says to type ends well; not where it says a placeholder."""
    program, *command = shlex.split(hint.removeprefix("hint: "))
    assert program == "hermesops"
    if "CELL" not in command:
        listed = await world.command.run(*command)
        assert listed.exit_code == 0, str(listed)


async def test_a_name_that_is_like_none(world: World) -> None:
    for words in (
        "backup restore nobody",
        "instance show 11111111-1111-4111-8111-111111111111",
        f"backup check {USER} --snapshot zzzz",
        "release show latest",
        "operation show zzzz",
        f"stack rollback-state cell1 --to 999 --yes {' '.join(WHY)}",
        f"stack import cell1 --machine {world.names['MACHINE']}={uuid.UUID(int=7)}",
    ):
        ran = await world.command.run(*shlex.split(words))
        assert ran.exit_code == 2, str(ran)
        error, hint = told_in(ran)
        assert error.startswith("error: no "), str(ran)
        listed = await world.command.run(*shlex.split(hint)[2:])
        assert listed.exit_code == 0, str(listed)


async def test_an_environment_that_was_mistyped_gets_no_registry(world: World) -> None:
    ran = await world.command.run("--env", "prodution", "instance", "list")
    assert ran.exit_code == 2, str(ran)
    assert not (world.command.home / "prodution").exists()
    (world.command.home / "staging").mkdir()
    await world.command.ok("--env", "staging", "instance", "list")
