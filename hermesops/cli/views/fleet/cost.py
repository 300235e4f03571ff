"""Cost of machines and use of models."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.views import shapes

if TYPE_CHECKING:
    from hermesops.agents.cells.cost.costs import Costs
    from hermesops.users.billing.model_usage import UsageSum


def cost(costs: "Costs") -> dict[str, object]:
    """Monthly cost of machines by the registry's rows, and by JustAVPS."""
    return {
        "cells": [{"cell": cell, **shapes.bill(bill)} for cell, bill in costs.cells.items()],
        "plans": [{"plan": plan, **shapes.bill(bill)} for plan, bill in costs.plans.items()],
        "platform": shapes.bill(costs.platform),
        "without_row": shapes.bill(costs.without_row),
        "estimated": shapes.bill(costs.total),
        "actual": {
            "monthly": None if costs.actual is None else f"{costs.actual:.2f}",
            "machines": None if costs.actual is None and costs.problem else costs.rented,
        },
        "problem": costs.problem.message if costs.problem else None,
        "difference": None if costs.difference is None else f"{costs.difference:.2f}",
    }


def cost_lines(costs: "Costs") -> list[str]:
    """Lines about the monthly cost for people."""
    width = max((len(name) for name in (*costs.cells, *costs.plans, "without a row")), default=0)
    beside = {"platform": costs.platform} if costs.platform else {}
    lines = [f"{name:<{width}}  {bill}" for bills in (costs.cells, costs.plans, beside) for name, bill in bills.items()]
    why = f": {costs.problem.message}" if costs.problem else ""
    actual = (
        f"not known{why}" if costs.actual is None else f"${costs.actual:.2f} for {counted(costs.rented, 'machine')}"
    )
    lines += [f"{'estimated':<{width}}  {costs.total}", f"{'JustAVPS':<{width}}  {actual}"]
    drift = ("fleet", "drift")
    if costs.without_row:
        lines.append(advice(f"{'without a row':<{width}}  {costs.without_row};", drift, "names them"))
    if costs.difference:
        lines.append(f"{'difference':<{width}}  ${costs.difference:.2f} (JustAVPS less estimated)")
    return lines


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
