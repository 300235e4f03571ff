"""Playbooks by ansible-runner over the connection plugin, against a hand-made toolbox on this computer."""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from hermesops.base import assets
from hermesops.base.waiting import Pending, until
from hermesops.errors import BrokenInvariantError, PartlyDoneError, UnknownOutcomeError, UsageError
from hermesops.machines.converge import Access, Converged, Converger, Host
from tests.support.vendor.toolbox_server import API_KEY, MACHINE, ToolboxServer, serving

pytestmark = pytest.mark.turns(30)


@pytest.fixture
def server() -> Iterator[tuple[ToolboxServer, str]]:
    """One for each test: what a killed Ansible still sends must not reach the next one's."""
    toolbox_server = ToolboxServer()
    with serving(toolbox_server) as url:
        yield toolbox_server, url


class Direct(Converger):
    """Runs every command in one request: away from its request it would need systemd, which tests need not have."""

    async def run(
        self,
        playbook: str,
        hosts: Sequence[Host],
        *,
        variables: Mapping[str, object] | None = None,
        **options: Any,  # noqa: ANN401 - the base's own
    ) -> Converged:
        limited = {"ansible_toolbox_command_timeout": 60, **(variables or {})}
        return await super().run(playbook, hosts, variables=limited, **options)


@pytest.fixture
def converger(server: tuple[ToolboxServer, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Converger:
    key = tmp_path / "api.key"
    key.touch(mode=0o600)
    key.write_text(API_KEY)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return Direct(assets.folder("ansible"), Access(server[1], key))


def _playbook(folder: Path, *tasks: str) -> str:
    file = folder / "play.yml"
    lines = "\n".join(f"    - {task}" for task in tasks)
    file.write_text(f"- hosts: instances\n  gather_facts: false\n  tasks:\n{lines}\n")
    return str(file)


def _left(folder: Path) -> list[str]:
    return [file.name for file in folder.glob("hermesops-converge*")]


async def test_tasks_run_and_are_told_and_nothing_is_left(converger: Converger, tmp_path: Path) -> None:
    reports: list[str] = []
    playbook = _playbook(
        tmp_path,
        '{name: say, command: "echo {{ word }}", register: said}',
        "{name: same, assert: {that: said.stdout == word}}",
        '{name: calm, command: "true", changed_when: false}',
    )
    result = await converger.run(playbook, [Host("edge", MACHINE)], variables={"word": "a b"}, report=reports.append)
    edge = result.hosts["edge"]
    assert (result.ok, edge.ok, edge.changed, reports) == (True, 3, ("say",), ["say", "same", "calm"])
    assert _left(tmp_path) == []


async def test_a_failed_task_is_named_and_secrets_are_not(converger: Converger, tmp_path: Path) -> None:
    playbook = _playbook(
        tmp_path,
        '{name: open, command: "true"}',
        "{name: secret, command: \"sh -c 'echo {{ word }} >&2; exit 3'\", no_log: true}",
    )
    result = await converger.run(playbook, [Host("edge", MACHINE)], variables={"word": "CANARY"})
    assert result.hosts["edge"].status == "failed"
    assert "CANARY" not in str(result)
    with pytest.raises(PartlyDoneError, match="secret"):
        result.require_ok()


async def test_one_host_that_is_not_there_does_not_stop_another(converger: Converger, tmp_path: Path) -> None:
    playbook = _playbook(tmp_path, 'command: "true"')
    result = await converger.run(playbook, [Host("edge", MACHINE), Host("gone", "no-such-machine")])
    assert {name: host.status for name, host in result.hosts.items()} == {"edge": "done", "gone": "unreachable"}


async def test_a_playbook_that_is_none_is_refused_before_any_host(
    converger: Converger, server: tuple[ToolboxServer, str], tmp_path: Path
) -> None:
    (tmp_path / "play.yml").write_text("- hosts: instances\n  rols: [x]\n")
    with pytest.raises(BrokenInvariantError, match="rols"):
        await converger.run(str(tmp_path / "play.yml"), [Host("edge", MACHINE)])
    assert server[0].calls == []


async def test_an_unknown_playbook_is_named_with_those_there_are(converger: Converger) -> None:
    with pytest.raises(UsageError, match="no playbook no-such") as raised:
        await converger.run("no-such", [Host("edge", MACHINE)])
    assert "instance" in str(raised.value.hint)


async def test_a_run_that_takes_too_long_is_ended(converger: Converger, tmp_path: Path) -> None:
    playbook = _playbook(tmp_path, 'command: "sleep 600"')
    with pytest.raises(UnknownOutcomeError, match="4 s"):
        await converger.run(playbook, [Host("edge", MACHINE)], timeout_s=4)
    assert _left(tmp_path) == []


async def test_a_cancelled_run_leaves_no_ansible_and_no_folder(
    converger: Converger, server: tuple[ToolboxServer, str], tmp_path: Path
) -> None:
    run = asyncio.create_task(converger.run(_playbook(tmp_path, 'command: "sleep 600"'), [Host("edge", MACHINE)]))

    async def begun() -> bool | Pending[bool]:
        return True if "POST execute" in server[0].calls else Pending("not yet")

    await until(begun, what="the task to begin", timeout_s=60)
    folder = tmp_path / _left(tmp_path)[0]
    assert folder.stat().st_mode & 0o777 == 0o700
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert _left(tmp_path) == []

    async def gone() -> bool | Pending[bool]:
        return Pending("still there") if any(str(folder) in command for command in _commands()) else True

    await until(gone, what="Ansible's processes to end", timeout_s=30)


DIES = """
import asyncio, sys
from pathlib import Path
from hermesops.base import assets
from hermesops.machines.converge import Access, Converger, Host

url, key, playbook, machine = sys.argv[1:]
converger = Converger(assets.folder("ansible"), Access(url, Path(key)))
asyncio.run(converger.run(playbook, [Host("edge", machine)], variables={"ansible_toolbox_command_timeout": 60}))
"""


async def test_ansible_ends_with_a_process_that_is_killed(
    server: tuple[ToolboxServer, str], converger: Converger, tmp_path: Path
) -> None:
    del converger  # its key is used
    playbook = _playbook(tmp_path, 'command: "sleep 600"')
    words = (server[1], str(tmp_path / "api.key"), playbook, MACHINE)
    environ = {**os.environ, "TMPDIR": str(tmp_path)}  # noqa: TID251 - of this computer
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", DIES, *words, env=environ)

    async def begun() -> bool | Pending[bool]:
        return True if "POST execute" in server[0].calls else Pending("not yet")

    await until(begun, what="the task to begin", timeout_s=60)
    assert any(str(tmp_path) in command and "ansible-playbook" in command for command in _commands())
    process.kill()
    await process.wait()

    async def gone() -> bool | Pending[bool]:
        return Pending("still there") if any(str(tmp_path) in command for command in _commands()) else True

    await until(gone, what="Ansible's processes to end", timeout_s=30)


async def test_what_did_not_reach_the_machine_is_sent_again(
    converger: Converger, server: tuple[ToolboxServer, str], tmp_path: Path
) -> None:
    server[0].oddities.refuse = [503]
    result = await converger.run(_playbook(tmp_path, 'command: "true"'), [Host("edge", MACHINE)])
    assert (result.ok, server[0].oddities.refuse) == (True, [])


async def test_what_may_have_reached_it_is_not(
    converger: Converger, server: tuple[ToolboxServer, str], tmp_path: Path
) -> None:
    server[0].oddities.refuse = [500]
    result = await converger.run(_playbook(tmp_path, 'command: "true"'), [Host("edge", MACHINE)])
    assert (result.hosts["edge"].status, server[0].calls) == ("unreachable", ["POST upload"])


async def test_check_mode_changes_nothing(converger: Converger, tmp_path: Path) -> None:
    playbook = _playbook(tmp_path, f"{{name: write, copy: {{content: x, dest: {tmp_path}/made, mode: '0644'}}}}")
    result = await converger.run(playbook, [Host("edge", MACHINE)], check=True)
    assert (result.changed, (tmp_path / "made").exists()) == (("write",), False)


def _commands() -> list[str]:
    names = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            names.append(entry.read_bytes().replace(b"\0", b" ").decode(errors="replace"))
        except OSError:
            continue
    return names
