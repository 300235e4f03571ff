"""Parameters of operations on one instance, and the operations that they conflict with.

``hermesops.agents.instances.requests.eligibility`` judges by ``statuses`` and ``blocked_by`` whether an instance may
have an operation.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar

from hermesops.errors import BrokenInvariantError, Hint
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind
from hermesops.store.operations.intent import AbandonNote, Intent


class BlockedBy(StrEnum):
    """Unfinished operations that refuse a new one of the instance; one of the same kind is continued instead."""

    NOTHING = "nothing"
    STOPPED_GATEWAY = "stopped_gateway"
    """Those during which the gateway is stopped: it may be copied already, and must not be started."""

    ANYTHING = "anything"


@dataclass(frozen=True, kw_only=True)
class InstanceIntent(Intent):
    """Parameters of an operation on one instance.

    Attributes:
        stops_gateway: True if the operation stops the gateway.
        blocked_by: Kinds that must have no unfinished operation.
        continues: Kinds that this request continues; they do not block it.
        statuses: Statuses of instances that may have such an operation.
        repeatable: True if a repeated request changes nothing by itself, and may return the unfinished operation.
    """

    stops_gateway: ClassVar[bool] = False
    blocked_by: ClassVar[BlockedBy] = BlockedBy.ANYTHING
    continues: ClassVar[frozenset[OperationKind]] = frozenset()
    statuses: ClassVar[frozenset[InstanceStatus]] = frozenset({InstanceStatus.RUNNING})
    repeatable: ClassVar[bool] = True

    user: str


def instance_of(operation: Operation) -> InstanceId:
    """The instance of an operation of one instance.

    Raises:
        BrokenInvariantError: Its row names none.
    """
    if operation.instance_id is None:
        raise BrokenInvariantError(f"operation {operation.id} of kind {operation.kind} names no instance")
    return operation.instance_id


MAY_BE_STOPPED = AbandonNote(
    "the gateway of {user} may be stopped and fenced, its state untouched",
    Hint(("instance", "resume", "USER", "--reason", "WHY"), "resumes it"),
)
"""The note of kinds during which the gateway is stopped."""
