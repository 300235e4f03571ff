"""Operations as the registry has them: listed, and shown with their history."""

from dataclasses import dataclass

from hermesops.errors import Hint
from hermesops.model.audit import AuditEntry
from hermesops.model.operation import Lease, Operation, OperationStatus, OperationStep
from hermesops.store.operations.kinds import abandon_note
from hermesops.store.registry import Registry

_ENTRIES = 100
"""Audit entries of an operation's subject that are read, the newest first."""


@dataclass(frozen=True)
class OperationHistory:
    """An operation with all that is recorded of it.

    Attributes:
        steps: Oldest first.
        lease: That of its subject; ``None`` when no process works on it.
        audit: Entries of its subject since it was opened, newest first.
        next: The command that an operator runs next; empty where it is done.
    """

    operation: Operation
    steps: tuple[OperationStep, ...]
    lease: Lease | None
    audit: tuple[AuditEntry, ...]
    next: Hint


@dataclass(frozen=True)
class OperationDirectory:
    """Finds operations; their work is the runner's."""

    registry: Registry

    def list(self, *, ended: bool = False) -> tuple[Operation, ...]:
        """Operations that have not ended, newest first; with ``ended`` those that have as well."""
        return tuple(self.registry.operations.list(unfinished=not ended))

    def get(self, operation_id: str) -> Operation:
        """One operation, by its id or an unambiguous beginning of it.

        Raises:
            UsageError: There is none of that id, or more than one.
        """
        return self.registry.operations.get(operation_id)

    def history(self, operation_id: str) -> OperationHistory:
        """One operation with its steps, its lease and its audit entries.

        Raises:
            UsageError: As ``get``.
        """
        registry, operation = self.registry, self.get(operation_id)
        subject = operation.subject
        lease = next((one for one in registry.leases.list() if one.subject == subject), None)
        entries = registry.audit.list(subject=subject, limit=_ENTRIES)
        return OperationHistory(
            operation,
            tuple(registry.operations.steps(operation.id)),
            lease,
            tuple(entry for entry in entries if entry.at >= operation.created_at),
            next_command(operation, lease),
        )


def next_command(operation: Operation, lease: Lease | None) -> Hint:
    """What an operator runs next about an operation; empty where it is done. Pure."""
    if operation.status.has_ended:
        return Hint() if operation.status is OperationStatus.DONE else abandon_note(operation).next
    if lease:
        return Hint(("operation", "continue", operation.id), f"waits for {lease.holder}")
    return Hint(("operation", "continue", operation.id), ", or", ("worker", "--once"))
