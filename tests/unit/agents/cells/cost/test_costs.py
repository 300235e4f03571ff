"""The fleet's costs where JustAVPS does not answer: rows of the registry are counted, and the rest is named."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal

import pytest

from hermesops.agents.cells.cost.costs import Costs, costs_of
from hermesops.automation.monitor.service import VendorMachines
from hermesops.cli.views.fleet.cost import cost_lines
from hermesops.errors import UnavailableError
from hermesops.model.ids import CellName
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client
from hermesops.views.agents.costs import cost
from tests.support.fakes.parts import part

CELL = part(name=CellName("cell1"))
AWAY = UnavailableError("JustAVPS, GET /machines: not reachable")


@asynccontextmanager
async def away() -> AsyncIterator[Client]:
    raise AWAY
    yield


def registry() -> Registry:
    machine = part(
        wanted=True, region="hel1", server_type="starter", instance=part(cell=CELL.name, plan=part(value="light"))
    )
    rows: Registry = part(
        cells=part(list=lambda: [CELL]),
        fleet=part(list_ordered=lambda: [machine]),
        unassigned=part(list=list),
    )
    return rows


async def test_machines_are_counted_by_rows_and_the_missing_part_is_named() -> None:
    costs = await costs_of(registry(), away, "local")
    assert costs.cells[CELL.name].unpriced == ("hel1/starter",)
    assert (costs.actual, costs.problem) == (None, AWAY)
    lines = cost_lines(costs)
    assert lines[-2:] == [
        "estimated      1 machine of unknown price (hel1/starter)",
        "JustAVPS       not known: JustAVPS, GET /machines: not reachable",
    ]
    shown = cost(costs)
    assert (shown["actual"], shown["problem"]) == ({"monthly": None, "machines": None}, AWAY.message)


async def test_the_monitor_measures_no_cost_that_is_not_known() -> None:
    with pytest.raises(UnavailableError, match="not reachable"):
        await VendorMachines("local", registry(), part(), away).cost()


def test_a_cost_that_is_known_has_no_problem() -> None:
    shown = cost(Costs({}, {}, Decimal(7), 1))
    assert (shown["actual"], shown["problem"]) == ({"monthly": "7.00", "machines": 1}, None)
