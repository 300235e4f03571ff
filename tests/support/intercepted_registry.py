"""A registry each of whose calls goes through the test's own function: to count them, or to die before or after one."""

from collections.abc import Callable
from functools import partial
from typing import Any

from hermesops.registry import Registry

Around = Callable[[str, Callable[[], Any]], Any]
"""Given the method as ``instances.get`` and the call; returns what the call returns."""


class InterceptedRegistry:
    """Stands for a registry; not a subclass, so that nothing goes past ``around``.

    Args:
        registry: The real one.
        around: Makes each call.
    """

    def __init__(self, registry: Registry, around: Around) -> None:
        self._registry = registry
        self._around = around

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - a repository, or a method of the registry itself
        held = getattr(self._registry, name)
        return self._intercepted(name, held) if callable(held) else _Repository(self, name, held)

    def _intercepted(self, name: str, method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda *given, **named: self._around(name, partial(method, *given, **named))


class _Repository:
    def __init__(self, registry: InterceptedRegistry, name: str, repository: object) -> None:
        self._registry = registry
        self._name = name
        self._repository = repository

    def __getattr__(self, method: str) -> Callable[..., Any]:
        return self._registry._intercepted(f"{self._name}.{method}", getattr(self._repository, method))
