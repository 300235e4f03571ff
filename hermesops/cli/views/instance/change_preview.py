"""Lines of a dry run: the steps, downtime, costs and losses of a change that was not opened."""

from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.cli.views.alerts import span
from hermesops.views.agents.change_previews import change_preview, changed_settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.cells.cost.bill import Bill
    from hermesops.agents.instances.preview.change_preview import ChangePreview, Loss

UNKNOWN = "unknown"
_TENTHS_S = 10
"""Seconds below which tenths are shown."""

_COLUMNS = ("step", "agent", "took_before")


def lines(preview: "ChangePreview") -> "Sequence[str]":
    """Render a dry run as lines for people; parameters as for its shape."""
    rows = [
        {
            "step": step.words,
            "agent": "down" if step.is_down else "runs",
            "took_before": _span(step.usual_s),
        }
        for step in preview.steps
    ]
    previous = f"; the previous machine {_price(preview.kept)} for {_days(preview.kept_days)}" if preview.kept else ""
    changed = changed_settings(preview)
    return [
        *([f"changed settings: {', '.join(changed)}"] if changed else []),
        *table_lines(_COLUMNS, rows, "no steps are left"),
        f"downtime: {downtime(preview)}",
        f"cost a month: {_price(preview.before)} now, {_price(preview.after)} after{previous}",
        f"lost: {lost(preview.loss)}",
        *([f"the machine is destroyed at {preview.ends_at:%Y-%m-%d %H:%M} UTC"] if preview.ends_at else []),
        *([f"continues operation {preview.operation.id}"] if preview.continues else []),
        "dry run: nothing was changed",
    ]


ROW = ("user", "plan", "cell", "machine_name", "cost", "steps_left", "usual")


def row(preview: "ChangePreview") -> dict[str, object]:
    """One of many agents that would be provisioned."""
    from hermesops.agents.instances.preview.change_preview import total_seconds

    instance, total = preview.instance, total_seconds(preview.steps)
    return {
        **change_preview(preview),
        "plan": instance.plan.value,
        "cell": instance.cell,
        "machine_name": instance.machine_name,
        "cost": _price(preview.after),
        "steps_left": len(preview.steps),
        "usual_s": total,
        "usual": _span(total),
    }


def downtime(preview: "ChangePreview") -> str:
    """Whether and how long the agent is down."""
    if preview.was_up and not preview.is_up:
        return f"from the step {next(step.words for step in preview.steps if step.is_down)!r} on"
    if preview.operation.kind.value == "provision" and not preview.was_up:
        return f"none; the agent runs after {_span(preview.down_s)}"
    if not preview.was_up:
        ending = f"runs after {_span(preview.down_s)}" if preview.is_up else "stays down"
        return f"the agent is down now and {ending}"
    return _span(preview.down_s) if any(step.is_down for step in preview.steps) else "none"


def lost(loss: "Loss | None") -> str:
    """The changes that the agent loses."""
    if loss is None:
        return "nothing"
    if loss.since is None:
        return "the whole state: there is no backup"
    changes = f"all changes since {loss.since:%Y-%m-%d %H:%M} UTC"
    return f"{changes}, of which a backup is made first" if loss.is_saved else changes


def _price(bill: "Bill") -> str:
    return UNKNOWN if bill.unpriced else f"${bill.monthly:.2f}"


def _days(days: float) -> str:
    return f"{days:g} day" if days == 1 else f"{days:g} days"


def _span(seconds: float | None) -> str:
    if seconds is None:
        return UNKNOWN
    return span(seconds) if seconds >= _TENTHS_S else f"{seconds:.1f} s"
