"""Cost of machines in lines for people."""

from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice

if TYPE_CHECKING:
    from hermesops.agents.cells.cost.costs import Costs


def cost_lines(costs: "Costs") -> list[str]:
    """Lines about the monthly cost for people."""
    width = max((len(name) for name in (*costs.cells, *costs.plans, "without a row")), default=0)
    beside = {"platform": costs.platform} if costs.platform else {}
    lines = [f"{name:<{width}}  {bill}" for bills in (costs.cells, costs.plans, beside) for name, bill in bills.items()]
    why = f": {costs.problem.message}" if costs.problem else ""
    actual = (
        f"not known{why}"
        if costs.actual is None
        else f"${costs.actual:.2f} a month for {counted(costs.rented, 'machine')}"
    )
    lines += [f"{'estimated':<{width}}  {costs.total}", f"{'JustAVPS':<{width}}  {actual}"]
    if costs.unused:
        lines.append(advice(f"{'warm pools':<{width}}  {costs.unused}, no agent on them;", ("pool", "list")))
    drift = ("fleet", "drift")
    if costs.without_row:
        lines.append(advice(f"{'without a row':<{width}}  {costs.without_row};", drift, "names them"))
    if costs.difference:
        lines.append(f"{'difference':<{width}}  ${costs.difference:.2f} (JustAVPS less estimated)")
    return lines
