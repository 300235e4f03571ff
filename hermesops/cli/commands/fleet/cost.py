"""``hermesops fleet cost``: what the machines cost by the rows, and what the vendor says they do."""

from typing import TYPE_CHECKING

from hermesops.cli import context
from hermesops.cli.console import result
from hermesops.cli.views import shapes

if TYPE_CHECKING:
    from hermesops.app.services.costs import Costs


def cost() -> None:
    """Show what the fleet costs a month: estimated from rows and prices, and as JustAVPS estimates it."""
    costs = context.run(context.compose().costs())
    result("fleet-cost", _shape(costs), _lines(costs))


def _shape(costs: "Costs") -> dict[str, object]:
    return {
        "cells": [{"cell": cell, **shapes.bill(bill)} for cell, bill in costs.cells.items()],
        "plans": [{"plan": plan, **shapes.bill(bill)} for plan, bill in costs.plans.items()],
        "estimated": shapes.bill(costs.total),
        "actual": {
            "monthly": None if costs.actual is None else f"{costs.actual:.2f}",
            "machines": costs.rented,
        },
        "difference": None if costs.difference is None else f"{costs.difference:.2f}",
    }


def _lines(costs: "Costs") -> list[str]:
    width = max((len(name) for name in (*costs.cells, *costs.plans, "estimated")), default=0)
    lines = [f"{name:<{width}}  {bill}" for bill_of in (costs.cells, costs.plans) for name, bill in bill_of.items()]
    actual = "not known" if costs.actual is None else f"${costs.actual:.2f} for {costs.rented} machines"
    lines += [f"{'estimated':<{width}}  {costs.total}", f"{'JustAVPS':<{width}}  {actual}"]
    if costs.difference:
        lines.append(f"{'difference':<{width}}  ${costs.difference:.2f}; hermesops fleet drift looks for what is extra")
    return lines
