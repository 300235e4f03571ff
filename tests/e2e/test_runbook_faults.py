"""Every runbook is run against a fault that it is for: brought about, seen, ended by the runbook's steps, verified."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from hermesops.observability.runbook.faults import FAULTS
from tests.support.real.commands.command import Command, local_world
from tests.support.runbooks.executions import ALONE, EXECUTIONS

DRILLED = [fault.name for fault in FAULTS if fault.is_drilled and not fault.needs_real]
WATCHED = {
    *("vendor-and-reports-away", "monitor-killed", "monitoring-away", "platform-service-ended", "revocations-unheard"),
    *("platform-certificate-old", "database-log-stuck", "database-backup-old", "platform-disk-full", "router-cut-off"),
    *("router-folder-gone", "provider-key-ended", "provision-killed", "price-unknown"),
    *("platform-door-ended", "users-processes-ended"),
    *("api-waits", "turns-left", "webhook-secret-wrong", "connections-ended", "callers-unreached"),
    *("connector-halted", "messenger-away", "socket-secret-wrong", "bot-token-ended"),
    *("messenger-hangs", "windows-closed", "session-ended", "jobs-fail"),
}
"""Faults that are seen by the platform's real monitoring: it takes a while to start, and alerts to come and go."""

SLOW = {"gateways-restart": 80}
"""Seconds of others: restarts are counted over some time."""

SECONDS_DRILLED = {"gateway-stopped": 34}
"""Seconds of drills that take longer than others."""

REAL = [fault.name for fault in FAULTS if fault.needs_real]
SECONDS_REAL = {"data-full": 70, "data-filled": 80, "database-malformed": 60}
"""Seconds of drills on a real machine that take longer than others."""

KEPT = {"HERMESOPS_LAST_BACKUP": "required", "HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_PREVIOUS_DAYS": "1"}


@pytest.fixture(scope="module")
async def pooled(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    pool = {"HERMESOPS_POOL_SIZE": "light=1"}
    async with local_world(tmp_path_factory.mktemp("drills"), driver="sim", variables=pool) as command:
        yield command


@pytest.fixture(scope="module")
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with with_ada(tmp_path_factory.mktemp("faults")) as command:
        yield command


@pytest.fixture(scope="module")
async def real(world: Command) -> AsyncIterator[Command]:
    """The local world of real machines, with a pool."""
    # Small data: a drill fills no more than 5 GB.
    sizes = {"HERMESOPS_POOL_SIZE": "light=1", "HERMESOPS_DATA_GB": "light=2,heavy=4"}
    pooled = world.with_variables(HERMESOPS_LAST_BACKUP="none", **sizes)
    yield pooled
    await world.ok("pool", "drain", "--all", "--yes", "--reason", "the drills are over")


@asynccontextmanager
async def with_ada(home: Path) -> AsyncIterator[Command]:
    async with local_world(home, driver="sim", variables=KEPT) as command:
        await command.ok("provision", "ada", "--plan", "light")
        await command.ok("backup", "create", "ada")
        yield command


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.turns(SECONDS_DRILLED.get(name, 10), each=True)) for name in DRILLED]
)
async def test_a_drill_ends_well_and_leaves_nothing(pooled: Command, name: str) -> None:
    await pooled.ok("job", "run", "pools")
    drilled = (await pooled.ok("drill", name, "--yes", "--json")).json
    assert drilled["problem"] is None
    assert len(drilled["changes"]) <= 3, "a known fault is ended by three commands"
    rows = {row["drill"]: row for row in (await pooled.ok("drill", "list", "--json")).json["drills"]}
    assert rows[name]["found"] == "well"
    assert (await pooled.ok("instance", "list", "--json")).json["instances"] == []


@pytest.mark.turns(10, each=True)
@pytest.mark.parametrize("name", sorted(ALONE))
async def test_a_runbook_ends_a_fault_that_changes_its_world(tmp_path: Path, name: str) -> None:
    async with with_ada(tmp_path) as world:
        await EXECUTIONS[name](world)


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.turns(45 if name in WATCHED else SLOW.get(name, 8), each=True))
        for name in EXECUTIONS
        if name not in ALONE
    ],
)
async def test_a_runbook_ends_its_fault(simulated: Command, name: str) -> None:
    await EXECUTIONS[name](simulated)
    assert (await simulated.ok("registry", "check", "--json")).json["contradictions"] == []


@pytest.mark.machines
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.turns(SECONDS_REAL.get(name, 30), each=True)) for name in REAL]
)
async def test_a_drill_ends_well_on_a_real_machine(real: Command, name: str) -> None:
    await real.ok("job", "run", "pools")
    drilled = (await real.ok("drill", name, "--yes", "--json")).json
    assert drilled["problem"] is None
    assert len(drilled["changes"]) <= 3, "a known fault is ended by three commands"


async def test_a_drill_without_a_ready_machine_is_refused(simulated: Command) -> None:
    refused = await simulated.run("drill", "gateway-stopped", "--yes")
    assert refused.exit_code == 3, str(refused)
    assert "a drill never uses a user's machine" in refused.stderr
    taken = await simulated.run("provision", "drill-gateway-stopped", "--plan", "light")
    assert taken.exit_code == 2, str(taken)
    assert [row["user"] for row in (await simulated.ok("instance", "list", "--json")).json["instances"]] == ["ada"]


@pytest.mark.turns(12)
async def test_a_drill_that_was_killed_is_begun_anew(pooled: Command) -> None:
    await pooled.ok("job", "run", "pools")
    await pooled.killed_at("it shows after", "drill", "gateway-stopped", "--yes")
    await pooled.ok("job", "run", "pools")
    again = await pooled.ok("drill", "GatewayDown", "--yes")
    assert "is left over from a killed drill" in again.stderr
    assert (await pooled.ok("instance", "list", "--json")).json["instances"] == []
