"""A registry that a test writes by hand: ``registry.instances.get`` is its method ``instances_get``."""

from typing import Any

from hermesops.registry import Registry


class FakeRegistry(Registry):
    """Base of such a registry; what a test does not define is an AttributeError that names it."""

    def __init__(self) -> None:
        """Open nothing."""

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - whatever the repository of that name would be
        """A repository; only asked for names that the test's class has not."""
        if not any(method.startswith(f"{name}_") for method in dir(self)):
            raise AttributeError(f"{type(self).__name__} has no repository {name}")
        return FakeRepository(self, name)


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
