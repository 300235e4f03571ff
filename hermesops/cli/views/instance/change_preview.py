"""Lines of a dry run: the steps, downtime, costs and losses of a change that was not opened."""

from typing import TYPE_CHECKING

from hermesops.cli.console import table_lines
from hermesops.views.agents.change_previews import change_preview, changed_settings
from hermesops.views.agents.change_words import days, downtime, lost, price, step_span

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.instances.preview.change_preview import ChangePreview

_COLUMNS = ("step", "agent", "took_before")


def lines(preview: "ChangePreview") -> "Sequence[str]":
    """Render a dry run as lines for people; parameters as for its shape."""
    rows = [
        {
            "step": step.words,
            "agent": "down" if step.is_down else "runs",
            "took_before": step_span(step.usual_s),
        }
        for step in preview.steps
    ]
    previous = f"; the previous machine {price(preview.kept)} for {days(preview.kept_days)}" if preview.kept else ""
    changed = changed_settings(preview)
    return [
        *([f"changed settings: {', '.join(changed)}"] if changed else []),
        *table_lines(_COLUMNS, rows, "no steps are left"),
        f"downtime: {downtime(preview)}",
        f"cost a month: {price(preview.before)} now, {price(preview.after)} after{previous}",
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
        "cost": price(preview.after),
        "steps_left": len(preview.steps),
        "usual_s": total,
        "usual": step_span(total),
    }
