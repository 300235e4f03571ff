"""Shapes of operations and of their history."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.model.operation import Lease, Operation, OperationStep
    from hermesops.store.operations.directory import AbandonPreview, OperationHistory
    from hermesops.store.operations.intent import AbandonNote
    from hermesops.store.operations.worker import Tally


def operation(row: "Operation") -> dict[str, object]:
    """The JSON object of an operation: kind, subject, status, step and times."""
    return {
        "id": row.id,
        "kind": row.kind.value,
        "subject": row.subject,
        "status": row.status.value,
        "step": row.step,
        "outcome": row.outcome,
        "created_at": timestamp(row.created_at),
        "updated_at": timestamp(row.updated_at),
    }


def whose(row: "Operation") -> str:
    """The user, cell, rollout or job that an operation is about, else its subject."""
    named = (row.intent.get(field) for field in ("user", "cell", "rollout", "job"))
    return one_line(str(next((name for name in named if name), row.subject)))


def history(shown: "OperationHistory") -> dict[str, object]:
    """An operation with its history; ``hint`` is the command that comes next."""
    return {
        **operation(shown.operation),
        "intent": dict(shown.operation.intent),
        "lease": _lease(shown.lease) if shown.lease else None,
        "steps": [_step(step) for step in shown.steps],
        "audit": [
            {"at": timestamp(entry.at), "who": entry.who, "action": entry.action, "why": entry.why}
            for entry in shown.audit
        ],
        "hint": shown.next or None,
    }


def continuation_preview(shown: "OperationHistory") -> dict[str, object]:
    """An operation that could be continued, with its history."""
    return {"operation": history(shown)}


def abandon_preview(preview: "AbandonPreview") -> dict[str, object]:
    """An operation that could be abandoned: its history, and everything that it would leave behind."""
    return {"operation": history(preview.history), "left": preview.left.what, "hint": preview.left.next}


def unfinished(stopped: "Sequence[Operation]", at_work: int) -> dict[str, object]:
    """Operations that have not ended: those that nobody works on, and how many others there are."""
    return {"at_work": at_work, "stopped": [operation(row) for row in stopped]}


def _lease(lease: "Lease") -> dict[str, object]:
    return {"holder": lease.holder, "token": lease.token, "expires_at": timestamp(lease.expires_at)}


def _step(step: "OperationStep") -> dict[str, object]:
    return {
        "at": timestamp(step.at),
        "step": step.step,
        "holder": step.holder or None,
        "problem": step.problem or None,
    }


def ended(user: str, operation_id: str | None, outcome: str) -> dict[str, object]:
    """The outcome of a change of an instance; ``operation_id`` is null where there was nothing to do."""
    return {"user": user, "operation_id": operation_id, "outcome": outcome}


def abandoned(row: "Operation", left: "AbandonNote") -> dict[str, object]:
    """An abandoned operation: everything that it left behind, and the command that comes next."""
    return {"id": row.id, "left": left.what, "hint": left.next}


def worked(tally: "Tally") -> dict[str, object]:
    """The operations that a worker ran, and those that it left."""
    left = [{"id": operation, "problem": problem} for operation, problem in tally.left.items()]
    return {"done": tally.done, "failed": tally.failed, "left": left}
