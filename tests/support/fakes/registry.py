"""A registry that a test writes by hand: ``registry.instances.get`` is its method ``instances_get``."""

from collections.abc import Sequence
from typing import Any

from hermesops.errors import UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, OperationId
from hermesops.model.operation import Operation, OperationStep
from hermesops.store.registry import Registry


class FakeRegistry(Registry):
    """Base of such a registry; what a test does not define is an AttributeError that names it."""

    def __init__(self) -> None:
        """Open nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the repository of that name would be
        """A repository; only asked for names that the test's class has not."""
        if not any(method.startswith(f"{name}_") for method in dir(self)):
            raise AttributeError(f"{type(self).__name__} has no repository {name}")
        return FakeRepository(self, name)

    # Whoever is refused a lease asks for whom it is held.

    def operations_unfinished(self) -> Sequence[Operation]:
        """None, unless the test's class says otherwise."""
        return ()

    def operations_steps(self, operation_id: OperationId) -> Sequence[OperationStep]:  # noqa: ARG002 - of none
        """None, unless the test's class says otherwise."""
        return ()

    def instances_get(self, instance_id: InstanceId) -> Instance:
        """None, unless the test's class says otherwise."""
        raise UsageError(f"{type(self).__name__} has no instance {instance_id}")


class FakeRepository:
    """The methods of a fake registry that begin with the repository's name.

    Args:
        registry: Whose.
        name: As ``instances``.
    """

    def __init__(self, registry: FakeRegistry, name: str) -> None:
        self._registry = registry
        self._name = name

    def __getattr__(self, method: str) -> Any:  # noqa: ANN401 - whatever the method is
        """The method that stands for it."""
        return getattr(self._registry, f"{self._name}_{method}")
