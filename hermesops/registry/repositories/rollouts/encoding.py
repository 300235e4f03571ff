"""What rollouts are made of, as JSON and back. Fields that a later hermesops added are passed over."""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, TypeVar

from pydantic import TypeAdapter

from hermesops.model.rollout import OperatorDecisions, Progress, Target
from hermesops.model.rollout_spec import Spec

Part = TypeVar("Part", bound=Spec | OperatorDecisions | Target | Progress)

_adapter: Callable[[Any], TypeAdapter[Any]] = cache(TypeAdapter)


def to_json(part: Part) -> dict[str, Any]:
    """A part of a rollout, as it is written."""
    return _dumped(type(part), part)


def from_json(kind: type[Part], told: Mapping[str, Any]) -> Part:
    """A part of a rollout, as it was written."""
    part: Part = _adapter(kind).validate_python(told)
    return part


def plain(told: Mapping[str, object]) -> dict[str, Any]:
    """Anything that is decided, or decided from."""
    return _dumped(dict[str, Any], told)


def _dumped(kind: Any, value: object) -> dict[str, Any]:  # noqa: ANN401 - any type that pydantic knows
    told: dict[str, Any] = _adapter(kind).dump_python(value, mode="json")
    return told
