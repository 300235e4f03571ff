"""``hermesops monitor`` in a simulated world: machines are stopped and deleted behind its back, monitors killed."""

import asyncio
import json
import signal
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from hermesops.automation.monitor.metrics.heartbeats import METRIC, SAMPLED
from hermesops.base.waiting import Pending, until
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import FaultOrder
from hermesops.localcloud.server.control_client import ControlClient
from tests.support.real.commands.command import Command, local_world
from tests.support.real.monitoring import prometheus
from tests.support.real.stores import postgresql
from tests.support.suite.prerequisites import require
from tests.support.vendor.outside_changes import delete_behind_its_back, stop_behind_its_back
from tests.support.worlds.old_rows import let_machines_be_gone_for

KEPT = {"HERMESOPS_LAST_BACKUP": "required", "HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_PREVIOUS_DAYS": "1"}
ONCE = ("monitor", "--once", "--json")


@contextmanager
def fleet_prometheus(folder: Path, instances: dict[str, float]) -> Iterator[str]:
    """A real Prometheus that has heartbeats of instances, each with the age of its last in seconds."""
    programs = prometheus.programs()
    require(programs, "Debian's prometheus (apt-get download prometheus)")
    assert programs
    now = time.time()
    past = [
        prometheus.Series(
            metric,
            "gauge",
            {"instance_id": name, "origin": "platform"},
            [(now - age - back, now - age - back) for back in (30.0, 15.0, 0.0)],
        )
        for name, age in instances.items()
        for metric in (METRIC, SAMPLED)
    ]
    folder.mkdir(exist_ok=True)
    with prometheus.running(folder, programs, past) as url:
        yield url


async def provisioned(world: Command, *users: str) -> dict[str, dict[str, Any]]:
    return {user: (await world.ok("provision", user, "--plan", "light", "--json")).json["instance"] for user in users}


async def machine_of(world: Command, user: str) -> str:
    return str((await world.ok("instance", "show", user, "--json")).json["instance"]["machine_id"])


def why_of(report: dict[str, Any], user: str) -> str:
    """What a pass says of a user."""
    return str(next(decision["why"] for decision in report["decisions"] if decision["user"] == user))


@asynccontextmanager
async def monitoring(world: Command, *words: str) -> AsyncIterator["Running"]:
    """A monitor that runs until the block ends."""
    running = Running(await world.start("monitor", "--every", "1", *words))
    try:
        yield running
    finally:
        await running.end()


class Running:
    """A monitor's process, and what it has logged."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process
        self.lines: list[dict[str, Any]] = []
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        assert self.process.stderr
        async for line in self.process.stderr:
            self.lines.append(json.loads(line))

    async def logged(self, event: str, **fields: object) -> dict[str, Any]:
        """The line of that event, once it was logged."""

        async def look() -> dict[str, Any] | Pending[dict[str, Any]]:
            wanted = {"event": event, **fields}
            lines = [line for line in self.lines if wanted.items() <= line.items()]
            assert self.process.returncode is None or lines, self.lines
            return lines[0] if lines else Pending(str(self.lines[-1:]))

        return await until(look, what=event, timeout_s=120, every_s=0.05)

    async def end(self, by: signal.Signals = signal.SIGTERM) -> None:
        if self.process.returncode is None:
            self.process.send_signal(by)
        await self.process.wait()
        await self._reading


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("monitor"), driver="sim", variables=KEPT) as command:
        yield command


async def test_a_machine_that_was_stopped_is_started(world: Command) -> None:
    provisioned_agents = await provisioned(world, "ada", "bob")
    quiet = (await world.ok(*ONCE)).json
    assert (quiet["leads"], quiet["expected"], quiet["decisions"], quiet["knows_heartbeats"]) == (True, 2, [], False)
    await stop_behind_its_back(world.home / "local" / "world", provisioned_agents["ada"]["machine_id"])
    only_told = (await world.with_variables(HERMESOPS_MONITORING_ACTIONS="none").ok(*ONCE)).json
    assert [(decision["user"], decision["decision"]) for decision in only_told["decisions"]] == [("ada", "Alert")]
    started = (await world.ok(*ONCE)).json
    assert started["repairs"] == [{"action": "start", "outcome": "done", "count": 1}]
    assert (await world.ok(*ONCE)).json["suspects"] == 0
    answers = await world.ok("instance", "reboot", "ada", "--reason", "t")
    assert "answers: nothing was done to it" in answers.stdout
    shown = (await world.ok("instance", "show", "ada", "--json")).json["instance"]
    assert shown["health"] == "healthy"
    refused = await world.run("monitor", "--check")
    assert (refused.exit_code, "no monitor acts" in refused.stderr) == (4, True)


async def test_heartbeats_are_recorded_and_a_machine_that_answers_is_left_alone(world: Command, tmp_path: Path) -> None:
    provisioned_agents = await provisioned(world, "ada", "bob")
    ages = {provisioned_agents["ada"]["instance_id"]: 5.0, provisioned_agents["bob"]["instance_id"]: 200.0}
    with fleet_prometheus(tmp_path / "prometheus", ages) as url:
        report = (await world.with_variables(HERMESOPS_PROMETHEUS_URL=url).ok(*ONCE)).json
    assert (report["heartbeats"], report["sources"]["prometheus"]) == (2, True)
    [bob] = report["decisions"]
    assert (bob["user"], bob["decision"]) == ("bob", "Alert")
    assert "monitoring is broken: no heartbeat for" in bob["why"]
    assert "though it answers by toolbox and proxy" in bob["why"]
    shown = (await world.ok("instance", "show", "ada", "--json")).json["instance"]
    assert shown["last_heartbeat"] is not None


@pytest.mark.turns(12)
async def test_a_machine_that_hangs_is_rebooted(world: Command, tmp_path: Path) -> None:
    provisioned_agents = await provisioned(world, "ada", "bob", "dora")
    await world.ok("instance", "exec", "dora", "--reason", "t", "--", "systemctl", "stop", "hermes-gateway.service")
    status = (await world.ok("local", "status", "--json")).json
    hanging = FaultOrder(
        FaultKind.SERVER_ERROR,
        provisioned_agents["dora"]["machine_id"],
        path="/machines/*/toolbox",
        status=503,
        for_s=40,
    )
    ages = {item["instance_id"]: 200.0 if user == "dora" else 2.0 for user, item in provisioned_agents.items()}
    with fleet_prometheus(tmp_path / "prometheus", ages) as url:
        await ControlClient(status["api_url"], Path(status["api_key_file"])).set_fault(vars(hanging))
        report = (await world.with_variables(HERMESOPS_PROMETHEUS_URL=url).ok(*ONCE)).json
    assert "and it answers neither by toolbox nor by proxy" in why_of(report, "dora")
    assert [(decision["user"], decision["decision"]) for decision in report["decisions"]] == [("dora", "Reboot")]
    assert report["repairs"] == [{"action": "reboot", "outcome": "done", "count": 1}]
    shown = (await world.ok("instance", "show", "dora", "--json")).json["instance"]
    assert "answered" in shown["reasons"][0]
    [operation] = [
        item
        for item in (await world.ok("operation", "list", "--all", "--json")).json["operations"]
        if item["kind"] == "reboot" and provisioned_agents["dora"]["instance_id"] in item["subject"]
    ]
    assert operation["step"].startswith("rebooting machine"), operation


@pytest.mark.turns(12)
async def test_a_machine_that_is_gone_is_replaced_where_that_is_allowed(world: Command, tmp_path: Path) -> None:
    provisioned_agents = await provisioned(world, "ada", "bob", "cleo")
    await world.ok("backup", "create", "cleo")
    lost = provisioned_agents["cleo"]["machine_id"]
    await delete_behind_its_back(world.home / "local" / "world", lost)
    with fleet_prometheus(
        tmp_path / "prometheus", {item["instance_id"]: 200.0 for item in provisioned_agents.values()}
    ) as url:
        # Heartbeats of all are missing, and all but one answer: the share is not what this is about.
        here = world.with_variables(HERMESOPS_PROMETHEUS_URL=url, HERMESOPS_MONITORING_SILENT_SHARE="1")
        assert "has not listed its machine for less than 60 s" in why_of((await here.ok(*ONCE)).json, "cleo")
        let_machines_be_gone_for(world, timedelta(seconds=61))
        told_only = why_of((await here.ok(*ONCE)).json, "cleo")
        assert "its machine is gone at JustAVPS for " in told_only
        assert "the monitor may not replace it (setting monitoring.actions)" in told_only
        assert await machine_of(world, "cleo") == lost
        report = (await here.with_variables(HERMESOPS_MONITORING_ACTIONS="all").ok(*ONCE)).json
    assert {"action": "replace", "outcome": "done", "count": 1} in report["repairs"], report
    assert "its newest backup is of" in why_of(report, "cleo")
    assert await machine_of(world, "cleo") != lost
    others = [decision for decision in report["decisions"] if decision["user"] != "cleo"]
    assert {decision["decision"] for decision in others} <= {"Alert"}, "machines that answer were touched"
    happened = (await world.ok("instance", "timeline", "cleo", "--since", "1h", "--json")).json["timeline"]
    assert "operation_opened" in {item["what"] for item in happened}
    assert (await world.ok("fleet", "drift")).stdout == "nothing differs\n"


@pytest.mark.postgres
@pytest.mark.turns(30)
async def test_of_two_monitors_one_acts_and_when_it_is_killed_the_other_continues(tmp_path: Path) -> None:
    require(postgresql.programs(), "PostgreSQL's programs (apt: postgresql-15)")
    with postgresql.running() as server:
        variables = {**KEPT, "HERMESOPS_REGISTRY_URL": server.new_database()}
        home = tmp_path / "home"
        await Command(home, variables).ok("registry", "migrate")
        async with local_world(home, driver="sim", variables=variables) as world:
            provisioned_agents = await provisioned(world, "ada", "bob")
            async with monitoring(world) as first, monitoring(world) as second:
                leading, following = await _sorted(first, second)
                assert leading.process.pid != following.process.pid
                standing_by = await following.logged("monitor_stands_by")
                checked = (await world.ok("monitor", "--check", "--json")).json
                assert checked["leader"] == standing_by["leader"]
                await stop_behind_its_back(world.home / "local" / "world", provisioned_agents["ada"]["machine_id"])
                begun = await leading.logged("repair_begins", action="start")
                leading.process.kill()
                await following.logged("monitor_leads")
                ended = await following.logged("repair_ends", outcome="done")
                assert ended["action"] in {"start", "continue"}
                assert begun["user"] == "ada"
                operations = (await world.ok("operation", "list", "--all", "--json")).json["operations"]
                assert {operation["status"] for operation in operations if operation["kind"] == "reboot"} == {"done"}
                assert (await world.ok("instance", "show", "ada", "--json")).json["instance"]["health"] == "healthy"

                server.restart()
                following.lines.clear()
                await stop_behind_its_back(world.home / "local" / "world", provisioned_agents["bob"]["machine_id"])
                await following.logged("repair_begins", user="bob")
                await following.logged("repair_ends", outcome="done")
                assert following.process.returncode is None, "it did not survive a restart of the database"


async def _sorted(first: Running, second: Running) -> tuple[Running, Running]:
    """The one that leads, and the one that follows."""

    async def look() -> tuple[Running, Running] | Pending[tuple[Running, Running]]:
        for running, other in ((first, second), (second, first)):
            events = {line["event"] for line in running.lines}, {line["event"] for line in other.lines}
            if "monitor_leads" in events[0] and "monitor_stands_by" in events[1]:
                return running, other
        return Pending(str([first.lines[-1:], second.lines[-1:]]))

    return await until(look, what="one to lead", timeout_s=60)
