"""Abandons an operation: nobody continues it. Says what it leaves behind."""

from hermesops.errors import RefusedError, UsageError
from hermesops.model.operation import Operation, OperationStatus
from hermesops.operations.intent import AbandonNote
from hermesops.operations.kinds import KINDS
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry


async def abandon(operation: Operation, registry: Registry, *, reason: str) -> AbandonNote:
    """Close an operation's row, so that nobody continues it; nothing else is touched.

    Args:
        reason: Why; goes into the outcome and the audit.

    Returns:
        What stays behind.

    Raises:
        UsageError: No reason was given.
        RefusedError: It has ended, or somebody is at it right now.
    """
    if not reason.strip():
        raise UsageError("say why nobody shall continue it", hint='hermesops operation abandon ID --reason "…"')
    if operation.status.has_ended:
        raise RefusedError(f"operation {operation.id} has ended ({operation.status}): {operation.outcome}")
    async with LeaseKeeper(registry, operation.subject) as keeper:
        outcome = f"abandoned: {reason.strip()}"
        registry.operations.finish(operation.id, OperationStatus.ABANDONED, outcome, lease=keeper.lease)
    return abandon_note(operation)


def abandon_note(operation: Operation) -> AbandonNote:
    """What a row of that kind leaves behind when it is not continued. Pure."""
    told = KINDS[operation.kind].abandoned
    # A row may say less than its kind declares: the note is for people, and must not fail.
    words = {"user": "USER", "cell": "CELL", "plan": "light", "rollout": "ID", **operation.intent}
    return AbandonNote(told.what.format_map(words), told.next.format_map(words))
