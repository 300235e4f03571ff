"""Parts of rollouts to JSON and back. Fields that a later hermesops added are ignored."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from hermesops.model.rollout import OperatorDecisions, Progress, Target
from hermesops.model.rollout_spec import Spec

Part = TypeVar("Part", bound=Spec | OperatorDecisions | Target | Progress)

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_json(part: Part) -> dict[str, Any]:
    """A part of a rollout as it is stored."""
    stored: dict[str, Any] = _adapter(type(part)).dump_python(part, mode="json")
    return stored


def from_json(kind: type[Part], stored: Mapping[str, Any]) -> Part:
    """A part of a rollout from what was stored."""
    part: Part = _adapter(kind).validate_python(stored)
    return part


def plain(value: Mapping[str, object]) -> dict[str, Any]:
    """A decision, or its evidence, as it is stored."""
    stored: dict[str, Any] = _adapter(dict[str, Any]).dump_python(value, mode="json")
    return stored
