"""Whether an instance may have an operation: the check that everything passes that opens one. Pure.

Each request of an operator has a ``Requirement`` here: services refuse by it, and pages offer nothing that it refuses.
"""

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from hermesops.agents.instances import refusals
from hermesops.errors import RefusedError
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.operation import Operation, OperationKind
from hermesops.store.operations.kinds.agents import (
    ConfigureIntent,
    ProvisionIntent,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import BackupIntent, RestoreIntent
from hermesops.store.operations.kinds.instance_intent import BlockedBy, InstanceIntent
from hermesops.store.operations.kinds.table import STOPS_GATEWAY


def refuse_ineligible(
    kind: type[InstanceIntent],
    instance: Instance,
    unfinished: Iterable[Operation],
    *,
    cancels: AbstractSet[OperationKind] = frozenset(),
    while_running: bool = False,
) -> None:
    """Let an operation be opened only where the instance's status and its unfinished operations allow it.

    Args:
        cancels: Kinds that the request cancels, so that they do not block it.
        while_running: Whether this request, unlike others of its kind, needs a running agent.

    Raises:
        RefusedError: The instance was terminated, is suspended or has never started, or another operation of it has
            not ended.
    """
    if instance.status is InstanceStatus.TERMINATED and instance.status not in kind.statuses:
        raise refusals.terminated(instance)
    for operation in unfinished:
        if blocks(kind, operation.kind) and operation.kind not in cancels:
            raise refusals.operation_unfinished(instance, operation)
    if instance.status not in kind.statuses or (while_running and instance.status is not InstanceStatus.RUNNING):
        is_suspended = instance.status is InstanceStatus.SUSPENDED
        raise refusals.suspended(instance) if is_suspended else refusals.never_started(instance)


def blocks(kind: type[InstanceIntent], unfinished: OperationKind) -> bool:
    """Whether an unfinished operation of a kind refuses a new one of the wanted kind."""
    if unfinished is kind.kind or unfinished in kind.continues:
        return False
    match kind.blocked_by:
        case BlockedBy.NOTHING:
            return False
        case BlockedBy.STOPPED_GATEWAY:
            return unfinished in STOPS_GATEWAY
        case BlockedBy.ANYTHING:
            return True


def refuse_stopped(instance: Instance, unfinished: Iterable[Operation]) -> None:
    """Let nothing start a gateway that an unfinished operation has stopped: its state may be copied already.

    Raises:
        RefusedError: Such an operation has not ended.
    """
    if operation := next((operation for operation in unfinished if operation.kind in STOPS_GATEWAY), None):
        raise refusals.operation_unfinished(instance, operation)


@dataclass(frozen=True)
class Requirement:
    """The rows that a request of an operator needs.

    Attributes:
        kind: Of the operation that it opens.
        cancels: Kinds that it cancels, so that they do not block it.
        while_running: Whether it, unlike others of its kind, needs a running agent.
    """

    kind: type[InstanceIntent]
    cancels: frozenset[OperationKind] = frozenset()
    while_running: bool = False

    def refuse(self, instance: Instance, unfinished: Iterable[Operation]) -> None:
        """Let the request pass, or raise as ``refuse_ineligible``."""
        refuse_ineligible(self.kind, instance, unfinished, cancels=self.cancels, while_running=self.while_running)

    def allows(self, instance: Instance, unfinished: Iterable[Operation]) -> bool:
        """Whether the rows let the request pass; a machine or JustAVPS may refuse it yet."""
        try:
            self.refuse(instance, unfinished)
        except RefusedError:
            return False
        return True


ENDS = frozenset({OperationKind.SCHEDULE_TERMINATION, OperationKind.TERMINATE})
"""Kinds that end an agent."""

RESTART = Requirement(RestartIntent)
REBOOT = Requirement(RebootIntent)
CONFIGURE = Requirement(ConfigureIntent)
SUSPEND = Requirement(SuspendIntent)
RESUME = Requirement(ResumeIntent)
CANCEL_TERMINATION = Requirement(ResumeIntent, cancels=ENDS)
RESIZE = Requirement(ResizeIntent, while_running=True)
RELOCATE = Requirement(RelocateIntent, while_running=True)
"""Of a move, of a resize onto a new machine, and of a renewal from another image."""

RESTORE = Requirement(RestoreIntent)
RESTORE_ANEW = Requirement(RelocateIntent)
TERMINATE = Requirement(TerminateIntent)
SCHEDULE_TERMINATION = Requirement(ScheduleTerminationIntent)
BACK_UP = Requirement(BackupIntent)
PROVISION = Requirement(ProvisionIntent)


def is_ending(instance: Instance, unfinished: Collection[Operation]) -> bool:
    """Whether there is a termination that could be cancelled."""
    return instance.grace_until is not None or any(operation.kind in ENDS for operation in unfinished)
