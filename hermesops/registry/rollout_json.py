"""What rollouts are made of, as JSON and back. Fields that a later hermesops added are passed over."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from pydantic import TypeAdapter

from hermesops.model.rollout import Progress, Target, Wishes
from hermesops.model.rollout_spec import Spec


@cache
def _adapter(kind: type) -> TypeAdapter[Any]:
    return TypeAdapter(kind)


def spec_to(spec: Spec) -> dict[str, Any]:
    """A spec."""
    return _to(Spec, spec)


def spec_from(told: Mapping[str, Any]) -> Spec:
    """A spec."""
    made: Spec = _adapter(Spec).validate_python(told)
    return made


def wishes_to(wishes: Wishes) -> dict[str, Any]:
    """Operators' wishes."""
    return _to(Wishes, wishes)


def wishes_from(told: Mapping[str, Any]) -> Wishes:
    """Operators' wishes."""
    made: Wishes = _adapter(Wishes).validate_python(told)
    return made


def facts_to(facts: Target) -> dict[str, Any]:
    """A frozen target."""
    return _to(Target, facts)


def facts_from(told: Mapping[str, Any]) -> Target:
    """A frozen target."""
    made: Target = _adapter(Target).validate_python(told)
    return made


def progress_to(progress: Progress) -> dict[str, Any]:
    """What a runner has to know of a target."""
    return _to(Progress, progress)


def progress_from(told: Mapping[str, Any]) -> Progress:
    """What a runner has to know of a target."""
    made: Progress = _adapter(Progress).validate_python(told)
    return made


def plain(told: Mapping[str, object]) -> dict[str, Any]:
    """Anything that is decided, or decided from."""
    return _to(dict[str, Any], told)


def _to(kind: Any, value: object) -> dict[str, Any]:  # noqa: ANN401 - any type that pydantic knows
    told: dict[str, Any] = _adapter(kind).dump_python(value, mode="json")
    return told
