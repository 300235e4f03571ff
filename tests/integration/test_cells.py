"""Cells with the real engine and provider before a small vendor: gathered wishes, several at once, one that fails."""

import asyncio
import shutil
import sys
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from hermesops.agents.cells.bulk import failure_of
from hermesops.agents.cells.changes.guard import Overrides
from hermesops.agents.cells.scheduling import choose_cell
from hermesops.agents.cells.stack.state import stack_of
from hermesops.app import Container
from hermesops.errors import PartlyDoneError, RefusedError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import CellName
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.plan import Plan
from hermesops.model.stack import ChangeKind
from hermesops.settings.environment import Environment
from tests.support.vendor.fake_justavps import FakeJustAvps, served

CELL1 = CellName("cell1")
NOTHING = Overrides()
"""Nothing is named beyond the limits."""


class RegionalVendor(FakeJustAvps):
    """Does not answer orders for one region."""

    away = ""

    async def _order(self, request: Request) -> Response:
        if (await request.json())["region"] == self.away:
            return JSONResponse({"message": "location disabled"}, 422)
        return await super()._order(request)


@pytest.fixture
def vendor() -> Iterator[RegionalVendor]:
    with served(RegionalVendor(looks_until_ready=0)) as fake:
        yield fake


def computer(vendor: FakeJustAvps, folder: Path) -> Container:
    key = folder / "api.key"
    key.write_text(vendor.key)
    key.chmod(0o600)
    environ = {
        "HOME": str(folder),
        "PATH": f"{Path(sys.executable).parent}:{Path(shutil.which('true') or '/bin/true').parent}",
        "HERMESOPS_API_URL": vendor.url,
        "HERMESOPS_API_KEY_FILE": str(key),
        "HERMESOPS_PULUMI_ENGINE": "embedded",
    }
    return Container(Environment.load("staging", environ), lambda _line: None)


@pytest.fixture
def app(vendor: RegionalVendor, tmp_path: Path) -> Container:
    return computer(vendor, tmp_path)


def place(app: Container, alias: str, region: str = "hel1", size: int = 40) -> Instance:
    return app.registry.placements.place(
        app.registry.users.resolve(alias, create=True),
        plan=Plan.LIGHT,
        server_type="starter",
        image_id=None,
        choose=partial(choose_cell, plan=Plan.LIGHT, region=region, size=size, plans_apart=False),
    )


async def make(app: Container, instance: Instance) -> None:
    async def lacks() -> bool:
        return not await app.cell_stacks.holds(instance.cell, instance.machine_name)

    await app.cell_stacks.apply(instance.cell, still_wanted=lacks)


def names(vendor: FakeJustAvps) -> Counter[str]:
    return Counter(str(machine["name"]) for machine in vendor.machines.values())


async def test_wishes_on_two_computers_are_a_few_runs_and_one_machine_each(
    vendor: RegionalVendor, app: Container, tmp_path: Path
) -> None:
    """Every wish is written while runs are under way, as operators do it; whoever comes later is served by the next."""
    computers = [app, computer(vendor, tmp_path)]
    instances: list[Instance] = []

    async def provision(number: int) -> None:
        instance = place(computers[number % 2], f"u{number}")
        instances.append(instance)
        await make(computers[number % 2], instance)

    await asyncio.gather(*(provision(number) for number in range(24)))
    assert names(vendor) == Counter(instance.machine_name for instance in instances)
    assert len(vendor.orders) == 24
    ups = [run for run in await app.engine.history(stack_of(CELL1)) if run.changes.get("create")]
    assert len(ups) <= 4, "at most the first of each computer, and one for all who waited there"
    assert (await app.cell_stacks.preview(CELL1)).destructive == ()
    assert app.registry.cells.get(CELL1).applied_at is not None


@pytest.mark.turns(60)
async def test_a_cell_that_fails_does_not_hold_up_the_others(vendor: RegionalVendor, app: Container) -> None:
    for number, region in enumerate(("hel1", "hel1", "nbg1")):
        place(app, f"u{number}", region, size=1)
    vendor.away = "nbg1"
    everything = app.choose_cells(names=(), where="", everything=True)
    runs = await everything.up((), named=NOTHING)
    failure = failure_of(runs)
    assert isinstance(failure, PartlyDoneError)
    assert "1 of 3 cells failed: cell3" in failure.message
    changes = [change for run in runs for change in run.changes if change.type == "justavps:index:Machine"]
    assert [(run.cell, run.error is None) for run in runs] == [("cell1", True), ("cell2", True), ("cell3", False)]
    assert {change.kind for change in changes} == {ChangeKind.CREATE}
    assert len(names(vendor)) == 2

    vendor.away = ""
    again = await app.choose_cells(names=("cell3",), where="", everything=False).up((), named=NOTHING)
    assert failure_of(again) is None
    assert len(vendor.orders) == 3
    rows = app.registry.operations.list(kind=OperationKind.STACK_UP)
    assert Counter(row.status for row in rows if row.subject == "cell/cell1") == {OperationStatus.DONE: 1}
    assert {row.status for row in rows if row.subject == "cell/cell3"} >= {OperationStatus.DONE}


async def test_somebody_else_at_a_cell_is_named_and_the_rest_goes_on(vendor: RegionalVendor, app: Container) -> None:
    for number in range(2):
        place(app, f"u{number}", size=1)
    app.registry.leases.take("cell/cell1", "another")
    runs = await app.choose_cells(names=(), where="region=hel1", everything=False).up((), named=NOTHING)
    assert [run.error is None for run in runs] == [False, True]
    assert isinstance(runs[0].error, RefusedError)
    assert "another" in runs[0].error.message
    assert len(vendor.orders) == 1


async def test_only_the_machine_that_is_meant_is_made_and_refreshed(vendor: RegionalVendor, app: Container) -> None:
    first, second = place(app, "ada"), place(app, "bob")
    cells = app.choose_cells(names=("cell1",), where="", everything=False)
    assert failure_of(await cells.up((first.machine_name,), named=NOTHING)) is None
    assert list(names(vendor)) == [first.machine_name]
    assert app.registry.cells.get(CELL1).applied_at is None
    shown = await app.cell_stacks.preview(CELL1)
    assert [c.name for c in shown.changes if c.kind is ChangeKind.CREATE] == [second.machine_name]
    assert isinstance(failure_of(await cells.up(("nobodys",), named=NOTHING)), UsageError)

    (machine,) = vendor.machines.values()
    machine["server_type"] = "pro"
    for run in (await cells.preview_refresh(()), await cells.refresh((first.machine_name,))):
        assert [(c.kind, c.name) for c in run[0].changes if c.name == first.machine_name] == [
            (ChangeKind.UPDATE, first.machine_name)
        ]


async def test_what_no_row_wants_is_shown_and_not_destroyed(vendor: RegionalVendor, app: Container) -> None:
    """A row that vanished without an operation: its machine is protected from every run that does not name it."""
    kept, lost = place(app, "ada"), place(app, "bob")
    await make(app, kept)
    app.registry.terminations.terminate(lost.id)
    shown = await app.cell_stacks.preview(CELL1)
    assert [change.name for change in shown.destructive] == [lost.machine_name]
    with pytest.raises(RefusedError, match=lost.machine_name):
        await app.cell_stacks.up(CELL1)
    assert set(names(vendor)) == {kept.machine_name, lost.machine_name}
