"""Giving an operation up: nobody will continue it, and what it leaves behind is said."""

from dataclasses import dataclass

from hermesops.errors import RefusedError, UsageError
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry


@dataclass(frozen=True)
class AbandonNote:
    """What an operation leaves behind that nobody continues.

    Attributes:
        what: In words.
        next: The command that cleans it up or begins anew.
    """

    what: str
    next: str


async def abandon(operation: Operation, registry: Registry, *, reason: str) -> AbandonNote:
    """Close an operation's row, so that nobody continues it; nothing else is touched.

    Args:
        operation: Its row.
        registry: The registry.
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
    user = operation.intent.get("user", "USER")
    cell = operation.intent.get("cell", "CELL")
    match operation.kind:
        case OperationKind.PROVISION:
            return AbandonNote(
                f"the instance of {user} stays provisioning; its machine may exist, and is paid for then",
                f"hermesops provision {user} --plan {operation.intent.get('plan', 'light')} goes on with it, "
                f"hermesops instance terminate {user} removes it",
            )
        case OperationKind.TERMINATE:
            return AbandonNote(
                f"the machine of {user} stays given up: the next up of its cell destroys it; "
                "its gateway may be stopped already",
                f"hermesops instance terminate {user} goes on with it",
            )
        case OperationKind.RESTART:
            return AbandonNote(
                f"the gateway of {user} runs as it was, or anew", f"hermesops instance show {user} says which"
            )
        case OperationKind.CONFIGURE:
            return AbandonNote(
                f"the registry has the new settings of {user}, its machine may have the old ones",
                f'hermesops instance settings {user} --back --reason "…" goes back to those before',
            )
        case (
            OperationKind.SUSPEND
            | OperationKind.RESUME
            | OperationKind.RESIZE
            | OperationKind.SCHEDULE_TERMINATION
            | OperationKind.RESTORE
            | OperationKind.SNAPSHOT
        ):
            return AbandonNote(
                f"the gateway of {user} may be stopped and fenced, its state untouched",
                f'hermesops instance resume {user} --reason "…" resumes it',
            )
        case OperationKind.RELOCATE:
            return AbandonNote(
                f"the gateway of {user} may be stopped and fenced, and the machine that was ordered is paid for",
                f'hermesops instance resume {user} --reason "…" resumes it, hermesops lifecycle apply gives that '
                "machine back",
            )
        case OperationKind.DRILL:
            return AbandonNote(
                f"a machine with a copy of the state of {user} may be there, its gateway fenced, and is paid for",
                "hermesops lifecycle apply gives that machine back",
            )
        case OperationKind.STACK_UP:
            return AbandonNote(
                f"{cell} is partly what its rows say; an engine that was killed may have left its lock",
                f"hermesops stack preview {cell} shows what is missing",
            )
        case OperationKind.POOL_FILL:
            return AbandonNote(
                f"the warm pool of {cell} holds what it held; machines may be half made, and are paid for then",
                f"hermesops pool refill {cell} goes on with it",
            )
        case _:  # kinds come with time, and a row may be of one that is newer than this list
            return AbandonNote(
                f"what its last step did: {operation.step or 'nothing was begun'}",
                f"hermesops operation show {operation.id}",
            )
