"""What the module ``hermes_units`` makes of a list, on a booted machine."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import pytest

from hermesops.machines.converge import Host, HostResult
from hermesops.model.ids import MachineId
from tests.support.worlds.local.converged import ConvergedWorld, converged_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(70)]

PLAYBOOK = """\
- name: Test
  hosts: instances
  gather_facts: false
  tasks:
    - name: Run units
      hermes_units:
        units: "{{ units }}"
"""
UNIT = """\
[Service]
Type=exec
ExecStart=/bin/sleep {seconds}
ExecReload=/bin/touch /run/reloaded
[Install]
WantedBy=multi-user.target
"""


@dataclass(frozen=True)
class Machine:
    """A machine with a unit ``example.service``, its settings and its rules."""

    world: ConvergedWorld
    machine_id: MachineId

    async def bring(self, *units: dict[str, Any], check: bool = False) -> HostResult:
        """Run the task."""
        playbook = self.world.folder / "units.yml"
        playbook.write_text(PLAYBOOK)
        hosts = [Host("m", self.machine_id)]
        done = await self.world.converger.run(str(playbook), hosts, variables={"units": list(units)}, check=check)
        return done.hosts["m"]

    async def changes(self, *units: dict[str, Any], check: bool = False) -> bool:
        """Run the task, which must not fail; whether it changed anything."""
        done = await self.bring(*units, check=check)
        assert done.status == "done", done.failure
        return bool(done.changed)

    async def put(self, path: str, text: str) -> None:
        """Write a file, as a run does that is killed before it restarts what reads it."""
        await self.world.channel(self.machine_id).put(path, text.encode(), mode=0o644)

    async def run(self, command: str) -> str:
        """What a command prints, whatever its exit code."""
        return (await self.world.channel(self.machine_id).run(command, timeout_s=60)).text.strip()

    async def invocation(self) -> str:
        """Another one after each start of the unit; empty where it does not run."""
        return await self.run("systemctl show --property=InvocationID --value example.service")


EXAMPLE = {"name": "example.service", "restart": ["/etc/settings"], "reload": ["/etc/rules"]}


@pytest.fixture(scope="module")
async def booted() -> AsyncIterator[Machine]:
    async with converged_world() as world, world.machine() as machine_id:
        yield Machine(world, machine_id)


@pytest.fixture
async def machine(booted: Machine) -> AsyncIterator[Machine]:
    """The machine, with the unit installed and running."""
    await booted.put("/etc/systemd/system/example.service", UNIT.format(seconds=3600))
    await booted.run("mkdir -p /etc/rules")
    for file in ("/etc/settings", "/etc/rules/one"):
        await booted.put(file, "first")
    assert await booted.changes(EXAMPLE)
    yield booted
    await booted.run("systemctl disable --now example.service; rm -rf /etc/systemd/system/example.service /etc/rules")


async def test_a_unit_runs_now_and_at_every_boot_and_a_second_run_changes_nothing(machine: Machine) -> None:
    shown = await machine.run("systemctl is-active example.service; systemctl is-enabled example.service")
    assert shown.split() == ["active", "enabled"]
    before = await machine.invocation()
    assert not await machine.changes(EXAMPLE)
    assert await machine.invocation() == before


async def test_what_a_killed_run_changed_is_read_by_the_next_one(machine: Machine) -> None:
    before = await machine.invocation()
    await machine.put("/etc/settings", "second")
    assert await machine.changes(EXAMPLE, check=True)
    assert await machine.invocation() == before
    assert await machine.changes(EXAMPLE)
    assert await machine.invocation() != before
    assert not await machine.changes(EXAMPLE)


async def test_what_a_reload_brings_in_restarts_nothing(machine: Machine) -> None:
    before = await machine.invocation()
    for change in ("rm /etc/rules/one", "touch /etc/rules/two"):
        await machine.run(f"rm -f /run/reloaded; {change}")
        assert await machine.changes(EXAMPLE)
        assert await machine.run("ls /run/reloaded") == "/run/reloaded"
        assert not await machine.changes(EXAMPLE)
    assert await machine.invocation() == before


async def test_a_unit_that_changes_is_read_again_and_restarted(machine: Machine) -> None:
    await machine.put("/etc/systemd/system/example.service", UNIT.format(seconds=7200))
    assert await machine.changes(EXAMPLE)
    assert "sleep 7200" in await machine.run("systemctl show --property=ExecStart example.service")
    assert await machine.run("pgrep -f 'sleep 7200'")
    assert not await machine.changes(EXAMPLE)


async def test_what_a_unit_starts_is_read_again_as_well(machine: Machine) -> None:
    timer = "[Timer]\nOnActiveSec=3600\nUnit=example-started.service\n[Install]\nWantedBy=timers.target\n"
    started = "[Service]\nType=oneshot\nExecStart=/bin/echo {}\n"
    await machine.put("/etc/systemd/system/example.timer", timer)
    await machine.put("/etc/systemd/system/example-started.service", started.format("first"))
    assert await machine.changes({"name": "example.timer"})
    await machine.put("/etc/systemd/system/example-started.service", started.format("second"))
    assert not await machine.changes({"name": "example.timer"})
    assert "echo second" in await machine.run("systemctl show --property=ExecStart example-started.service")


async def test_a_unit_that_is_kept_is_neither_started_nor_stopped_but_reads_its_files_again(machine: Machine) -> None:
    kept = [{**EXAMPLE, "state": "kept"}, {"name": "other.service", "state": "kept", "reload": ["/etc/rules"]}]
    before = await machine.invocation()
    assert not await machine.changes(*kept)
    await machine.put("/etc/settings", "third")
    assert await machine.changes(*kept)
    assert await machine.invocation() not in ("", before)
    await machine.run("systemctl stop example.service")
    assert not await machine.changes(*kept)
    assert await machine.run("systemctl is-active example.service") == "inactive"


async def test_a_unit_that_is_not_wanted_ends_and_stays_away(machine: Machine) -> None:
    stopped = {**EXAMPLE, "state": "stopped"}
    assert await machine.changes(stopped)
    shown = await machine.run("systemctl is-active example.service; systemctl is-enabled example.service")
    assert shown.split() == ["inactive", "disabled"]
    assert not await machine.changes(stopped)


async def test_what_does_not_run_is_named_and_comes_up_once_it_can(machine: Machine) -> None:
    broken = UNIT.format(seconds=3600).replace("/bin/sleep", "/bin/sleep-that-is-not-there")
    await machine.put("/etc/systemd/system/example.service", f"[Unit]\nStartLimitBurst=1\n{broken}")
    for _ in range(2):
        failed = await machine.bring(EXAMPLE)
        assert failed.status == "failed"
        assert "example.service" in str(failed.failure)
    await machine.put("/etc/systemd/system/example.service", UNIT.format(seconds=3600))
    assert await machine.changes(EXAMPLE)
    assert await machine.run("systemctl is-active example.service") == "active"


async def test_a_service_that_runs_and_does_not_answer_fails_in_time(machine: Machine) -> None:
    for url in ("http://127.0.0.1:9/ready", "tcp://127.0.0.1:9"):
        failed = await machine.bring({**EXAMPLE, "answers": url, "within": 1})
        assert f"example.service: {url} does not answer" in str(failed.failure)


async def test_a_unit_that_is_not_there_fails_and_a_preview_says_that_it_would_start(machine: Machine) -> None:
    absent = {"name": "absent.service"}
    assert await machine.changes(absent, check=True)
    assert "absent.service" in str((await machine.bring(absent)).failure)
