"""Shapes of dry runs: the steps, downtime, costs and losses of a change that was not opened."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.cells.cost.bill import Bill
    from hermesops.agents.instances.preview.change_preview import ChangePreview, PlannedStep
    from hermesops.model.operation import Operation


def change_preview(preview: "ChangePreview") -> dict[str, object]:
    """The JSON object of a dry run: steps, downtime, cost and losses."""
    loss = preview.loss
    return {
        "user": preview.instance.title,
        "change": preview.operation.kind.value,
        "changed": list(changed_settings(preview)),
        "continues": preview.operation.id if preview.continues else None,
        "steps": [_step(step) for step in preview.steps],
        "runs_now": preview.was_up,
        "runs_after": preview.is_up,
        "down_s": preview.down_s,
        "monthly_before": _dollars(preview.before),
        "monthly_after": _dollars(preview.after),
        "monthly_previous": _dollars(preview.kept),
        "previous_days": preview.kept_days if preview.kept else 0,
        "ends_at": timestamp(preview.ends_at),
        "lost": {"since": timestamp(loss.since), "backed_up_first": loss.is_saved} if loss else None,
    }


def checked(user: str, operation: "Operation") -> dict[str, object]:
    """A change whose checks pass, and whose steps nobody knows before it begins."""
    return {"user": user, "change": operation.kind.value}


def changed_settings(preview: "ChangePreview") -> "Sequence[str]":
    """Names of the settings that the change writes."""
    from hermesops.store.operations.kinds.agents import ConfigureIntent

    is_of_settings = preview.operation.kind is ConfigureIntent.kind
    return ConfigureIntent.of(preview.operation).changed if is_of_settings else ()


def _step(step: "PlannedStep") -> dict[str, object]:
    return {"name": step.name, "step": step.words, "down": step.is_down, "usual_s": step.usual_s}


def _dollars(bill: "Bill") -> str | None:
    return None if bill.unpriced else str(bill.monthly)
