"""Sentences about a change before it is opened: its downtime, price and losses."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import span

if TYPE_CHECKING:
    from hermesops.agents.cells.cost.bill import Bill
    from hermesops.agents.instances.preview.change_preview import ChangePreview, Loss

UNKNOWN = "unknown"
_TENTHS_S = 10
"""Seconds below which tenths are shown."""


def sentences(preview: "ChangePreview") -> dict[str, str]:
    """Downtime, costs a month and losses of a change, each in words."""
    return {
        "downtime": downtime(preview),
        "cost_before": price(preview.before),
        "cost_after": price(preview.after),
        "lost": lost(preview.loss),
    }


def downtime(preview: "ChangePreview") -> str:
    """Whether and how long the agent is down."""
    if preview.was_up and not preview.is_up:
        return f"from the step {next(step.words for step in preview.steps if step.is_down)!r} on"
    if preview.operation.kind.value == "provision" and not preview.was_up:
        return f"none; the agent runs after {step_span(preview.down_s)}"
    if not preview.was_up:
        ending = f"runs after {step_span(preview.down_s)}" if preview.is_up else "stays down"
        return f"the agent is down now and {ending}"
    return step_span(preview.down_s) if any(step.is_down for step in preview.steps) else "none"


def lost(loss: "Loss | None") -> str:
    """The changes that the agent loses."""
    if loss is None:
        return "nothing"
    if loss.since is None:
        return "the whole state: there is no backup"
    changes = f"all changes since {loss.since:%Y-%m-%d %H:%M} UTC"
    return f"{changes}, of which a backup is made first" if loss.is_saved else changes


def price(bill: "Bill") -> str:
    """US dollars a month; unknown where a machine of it has no price."""
    return UNKNOWN if bill.unpriced else f"${bill.monthly:.2f}"


def days(count: float) -> str:
    """A number of days in words."""
    return f"{count:g} day" if count == 1 else f"{count:g} days"


def step_span(seconds: float | None) -> str:
    """Seconds that a step takes, in words; unknown for none."""
    if seconds is None:
        return UNKNOWN
    return span(seconds) if seconds >= _TENTHS_S else f"{seconds:.1f} s"
