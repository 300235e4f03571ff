"""JSON objects of agents that call users' agents, for every face: ids, times and counts, no name and no host."""

from typing import TYPE_CHECKING

from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from hermesops.model.chat.caller import CallerRecord


def revocation_preview(record: "CallerRecord") -> dict[str, object]:
    """A caller before the end of its key, with the use of that."""
    return {"caller": caller(record)}


def caller(record: "CallerRecord") -> dict[str, object]:
    """A caller with the use of its key."""
    return {
        "caller": record.id,
        "user_id": record.user_id,
        "instance_id": record.instance_id,
        "state": record.state.value,
        "may_approve": record.may_approve,
        "tasks": record.tasks,
        "open_tasks": record.open_tasks,
        "failed_tasks": record.failed_tasks,
        "undelivered": record.undelivered,
        "created": timestamp(record.created_at),
        "used": timestamp(record.used_at),
        "revoked": timestamp(record.revoked_at),
    }
