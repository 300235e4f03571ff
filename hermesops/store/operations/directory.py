"""Operations as the registry has them: listed, and shown with their history."""

from dataclasses import dataclass

from hermesops.errors import Hint, RefusedError
from hermesops.model.access.audit import AuditEntry
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Lease, Operation, OperationKind, OperationStatus, OperationStep
from hermesops.store.operations.intent import AbandonNote
from hermesops.store.operations.kinds.table import abandon_note
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.operations.leases.under_way import refuse_held
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

    @property
    def is_idle(self) -> bool:
        """Whether no process works on it; a lease of one that is gone does not count."""
        return self.lease is None or is_gone(self.lease.holder)


@dataclass(frozen=True)
class AbandonPreview:
    """An operation that could be abandoned, and everything that it would leave behind."""

    history: OperationHistory
    left: AbandonNote


@dataclass(frozen=True)
class OperationDirectory:
    """Finds operations; their work is the runner's."""

    registry: Registry

    def list(self, *, ended: bool = False) -> tuple[Operation, ...]:
        """Operations that have not ended, newest first; with ``ended`` those that have as well."""
        return tuple(self.registry.operations.list(unfinished=not ended))

    def recent(self, limit: int) -> tuple[Operation, ...]:
        """The newest operations, ended ones as well.

        Args:
            limit: So many.
        """
        return tuple(self.registry.operations.list(limit=limit))

    def of_instance(self, instance_id: InstanceId, limit: int) -> tuple[Operation, ...]:
        """The newest operations of an instance, ended ones as well.

        Args:
            limit: So many.
        """
        return tuple(self.registry.operations.list(instance_id=instance_id, limit=limit))

    def of_kind(self, kind: OperationKind, limit: int) -> tuple[Operation, ...]:
        """The newest operations of a kind, ended ones as well.

        Args:
            limit: So many.
        """
        return tuple(self.registry.operations.list(kind=kind, limit=limit))

    def unfinished_of(self, instance_id: InstanceId) -> tuple[Operation, ...]:
        """The operations of an instance that have not ended."""
        return tuple(self.registry.operations.list(unfinished=True, instance_id=instance_id))

    def get(self, operation_id: str) -> Operation:
        """Return the operation with this id, or with the only id that begins with it.

        Raises:
            UsageError: No operation, or more than one, has such an id.
        """
        return self.registry.operations.get(operation_id)

    def preview_continuation(self, operation_id: str) -> OperationHistory:
        """Return an operation that can be continued, with its history.

        Raises:
            UsageError: As ``get``.
            RefusedError: It has ended.
        """
        history = self.history(operation_id)
        refuse_ended(history.operation)
        return history

    def preview_abandon(self, operation_id: str) -> AbandonPreview:
        """Return an operation that can be abandoned, with everything that it would leave behind.

        Raises:
            UsageError: As ``get``.
            RefusedError: It has ended, or a process works on it.
        """
        history = self.preview_continuation(operation_id)
        refuse_held(self.registry, history.lease)
        return AbandonPreview(history, abandon_note(history.operation))

    def history(self, operation_id: str) -> OperationHistory:
        """Return an operation with its steps, its lease and its audit entries.

        Raises:
            UsageError: As ``get``.
        """
        registry, operation = self.registry, self.get(operation_id)
        subject = operation.subject
        lease = next((lease for lease in registry.leases.list() if lease.subject == subject), None)
        entries = registry.audit.list(subject=subject, limit=_ENTRIES)
        return OperationHistory(
            operation,
            tuple(registry.operations.steps(operation.id)),
            lease,
            tuple(entry for entry in entries if entry.at >= operation.created_at),
            next_command(operation, lease),
        )


def refuse_ended(operation: Operation) -> None:
    """Let only an operation that has not ended be continued or abandoned. Pure.

    Raises:
        RefusedError: It has ended.
    """
    if operation.status.has_ended:
        raise RefusedError(
            f"operation {operation.id} has ended ({operation.status}): {operation.outcome}",
            hint=Hint(("operation", "list", "--all")),
        )


def next_command(operation: Operation, lease: Lease | None) -> Hint:
    """Return the next command for an operator; empty for an operation that is done. Pure."""
    if operation.status.has_ended:
        return Hint() if operation.status is OperationStatus.DONE else abandon_note(operation).next
    if lease:
        return Hint(("operation", "continue", operation.id), f"waits for {lease.holder}")
    return Hint(("operation", "continue", operation.id), ", or", ("worker", "--once"))
