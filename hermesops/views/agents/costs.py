"""Shapes of the cost of machines, and of agents' use of models."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hermesops.agents.cells.cost.bill import Bill, Cost
    from hermesops.agents.cells.cost.costs import Costs
    from hermesops.users.billing.model_usage import UsageSum


_HOURS = 730
"""Hours of a month on average: 365 days in twelve parts."""


def cost(costs: "Costs") -> dict[str, object]:
    """Monthly cost of machines by the registry's rows, and by JustAVPS; ``pools`` are machines without an agent."""
    return {
        "cells": [{"cell": cell, **bill(cell_bill)} for cell, cell_bill in costs.cells.items()],
        "plans": [{"plan": plan, **bill(plan_bill)} for plan, plan_bill in costs.plans.items()],
        "pools": {
            **bill(costs.unused),
            "hourly": f"{costs.unused.monthly / _HOURS:.4f}",
            "cells": [{"cell": cell, "plan": plan, **bill(of_pool)} for (cell, plan), of_pool in costs.pools.items()],
        },
        "platform": bill(costs.platform),
        "without_row": bill(costs.without_row),
        "estimated": bill(costs.total),
        "actual": {
            "monthly": None if costs.actual is None else f"{costs.actual:.2f}",
            "machines": None if costs.actual is None and costs.problem else costs.rented,
        },
        "problem": costs.problem.message if costs.problem else None,
        "difference": None if costs.difference is None else f"{costs.difference:.2f}",
    }


def change(cost: "Cost") -> dict[str, object]:
    """The monthly cost of some machines before and after a change."""
    return {"before": bill(cost.before), "after": bill(cost.after)}


def usage(usage_sum: "UsageSum") -> dict[str, object]:
    """The JSON object of a sum of model usage: answers, failures, tokens and US dollars."""
    return {
        "name": usage_sum.name,
        "answers": usage_sum.answers,
        "failures": usage_sum.failures,
        "input_tokens": usage_sum.input_tokens,
        "output_tokens": usage_sum.output_tokens,
        "usd": f"{usage_sum.micros / 1_000_000:.6f}",
    }


def bill(charged: "Bill") -> dict[str, object]:
    """The monthly cost of some machines."""
    return {
        "monthly": f"{charged.monthly:.2f}",
        "machines": charged.machines,
        "unpriced": sorted(set(charged.unpriced)),
    }
