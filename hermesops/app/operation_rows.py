"""What services and handlers share about the rows of operations."""

from collections.abc import Awaitable, Callable, Mapping

from hermesops.errors import BrokenInvariantError
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance
from hermesops.model.operation import Operation, OperationKind

OpenOperation = Callable[[OperationKind, Instance, Mapping[str, object]], Awaitable[Operation]]
"""Opens an operation of an instance under its lease, or finds the unfinished one of that kind."""


def instance_of(operation: Operation) -> InstanceId:
    """The instance of an operation.

    Raises:
        BrokenInvariantError: Its row names no instance.
    """
    if operation.instance_id is None:
        raise BrokenInvariantError(f"operation {operation.id} of kind {operation.kind} names no instance")
    return operation.instance_id
