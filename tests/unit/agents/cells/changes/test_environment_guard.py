"""What machines cost is asked once for all of them; a silent vendor's prices are not known."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from decimal import Decimal
from typing import Any

import pytest

from hermesops.agents.cells.changes.environment_guard import Guards
from hermesops.agents.cells.cost.costs import costs_of
from hermesops.agents.drift.compare import compare
from hermesops.cli.views.fleet.cost import cost_lines
from hermesops.errors import RefusedError, UnavailableError
from hermesops.settings.environment import Environment
from hermesops.vendor.justavps.wire import Machine, ServerType
from hermesops.views.agents.costs import bill, cost
from tests.support.fakes.parts import part
from tests.support.fleets.in_memory import Fleet, machine_for, machine_of_unassigned, ordered, pooled


def registry() -> Any:  # noqa: ANN401 - stands for a registry
    return part(
        cells=part(list=lambda: [part(name="cell1")]),
        fleet=part(list_ordered=lambda: [ordered(0), ordered(1)]),
        unassigned=part(list=lambda: [pooled(2), pooled(3, wanted=False)]),
    )


class Vendor:
    """Sells one server type."""

    def __init__(self, *, is_silent: bool = False) -> None:
        self._is_silent = is_silent
        self.others: tuple[str, ...] = ()

    @asynccontextmanager
    async def __call__(self) -> AsyncIterator[Any]:
        if self._is_silent:
            raise UnavailableError("no answer")
        yield self

    async def list_server_types(self, region: str) -> list[ServerType]:
        assert region == "hel1"
        return [ServerType.model_validate({"name": "starter", "price_monthly": 10})]

    async def list_machines(self) -> list[Machine]:
        rows = [machine_for(ordered(0)), machine_for(ordered(1)), machine_of_unassigned(pooled(2))]
        return [*rows, *(Machine(id=name, name=name, price_monthly=7) for name in self.others)]

    async def get_usage(self) -> Any:  # noqa: ANN401 - stands for the vendor's usage
        return part(estimated_cost=31.5, total_machines=4)


def guards(vendor: Vendor, budget: str = "") -> Guards:
    given = {"HERMESOPS_MONTHLY_BUDGET": budget} if budget else {}
    env = Environment.load("staging", {"HOME": "/nowhere", "HERMESOPS_HOME": "/nowhere", **given})
    make: Any = vendor
    return Guards(env, registry(), make)


async def test_all_machines_and_the_new_ones_have_to_fit_into_the_budget() -> None:
    await guards(Vendor(), "40").refuse_unaffordable(("starter", "hel1"))
    with pytest.raises(RefusedError, match=r"1 more starter in hel1 would exceed .* \$39\.99"):
        await guards(Vendor(), "39.99").refuse_unaffordable(("starter", "hel1"))


async def test_without_prices_a_budget_refuses_and_no_budget_does_not_ask() -> None:
    await guards(Vendor(is_silent=True)).refuse_unaffordable(("starter", "hel1"))
    with pytest.raises(RefusedError, match="unknown price"):
        await guards(Vendor(is_silent=True), "1000").refuse_unaffordable(("starter", "hel1"))


async def test_costs_are_told_by_cell_and_plan_and_beside_the_vendors_own_account() -> None:
    make: Any = Vendor()
    costs = await costs_of(registry(), make, "local")
    assert {name: bill.machines for name, bill in costs.cells.items()} == {"cell1": 3}
    assert {name: bill.machines for name, bill in costs.plans.items()} == {"light": 3}
    assert (costs.total.monthly, costs.difference, costs.rented) == (Decimal(30), Decimal("1.5"), 4)
    assert {place: bill.monthly for place, bill in costs.pools.items()} == {("cell1", "light"): Decimal(10)}
    pools = {"monthly": "10.00", "machines": 1, "unpriced": [], "hourly": "0.0137"}
    assert cost(costs)["pools"] == {**pools, "cells": [{"cell": "cell1", "plan": "light", **bill(costs.unused)}]}
    assert any("$10.00 a month for 1 machine, no agent on them" in line for line in cost_lines(costs))


async def test_costs_and_drift_agree_on_machines_without_a_row() -> None:
    make: Any = Vendor()
    make.others = ("hermes-local-platform", "hermes-local-cell1-strayone")
    costs = await costs_of(registry(), make, "local")
    assert (costs.platform.monthly, costs.total.monthly) == (Decimal(7), Decimal(37))
    assert (costs.without_row.machines, costs.without_row.monthly) == (1, Decimal(7))
    fleet = Fleet([ordered(0), ordered(1)], await make.list_machines())
    named = [finding.machine for finding in compare(fleet.snapshot(unassigned=(pooled(2),)))]
    assert named == ["hermes-local-cell1-strayone"]
