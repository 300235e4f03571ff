"""Resources that a Pulumi program registers without an engine, and the differences of two lists. Pure."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


@dataclass(frozen=True)
class Registered:
    """A resource that a program registered.

    Attributes:
        type: Pulumi type token, as ``aws:rds/instance:Instance``.
        name: Logical name.
        parent: Type and logical name of its parent, as its URN ends; empty for none.
        inputs: Its properties.
        protect: Whether an engine refuses to delete it.
        retain: Whether it stays at AWS when it leaves the program.
    """

    type: str
    name: str
    parent: str
    inputs: Mapping[str, Any]
    protect: bool
    retain: bool

    @property
    def kind(self) -> str:
        """The type without its module's file, as ``rds.Instance``."""
        _, module, name = self.type.split(":")
        return f"{module.partition('/')[0]}.{name}"

    @property
    def key(self) -> tuple[str, str, str]:
        """Parent, type and name, which identify the resource to an engine."""
        return self.parent, self.type, self.name


class Effect(StrEnum):
    """Change that an engine would make to a resource.

    ``LATER``: none now; new resources of that kind are made with the new properties.
    """

    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    LATER = "later"


@dataclass(frozen=True)
class PropertyChange:
    """A property that differs.

    Attributes:
        path: As ``policy.Statement[ReadState].Action[0]``.
        before: JSON of its value; empty where there is none.
        after: As ``before``.
    """

    path: str
    before: str
    after: str


@dataclass(frozen=True)
class Difference:
    """A resource that differs between two programs."""

    effect: Effect
    resource: Registered
    properties: tuple[PropertyChange, ...] = ()


EffectOf = Callable[[Registered, Registered], Effect]
"""Function that returns an engine's change of a resource with different properties."""


def differences(
    before: Iterable[Registered], after: Iterable[Registered], effect_of: EffectOf
) -> tuple[Difference, ...]:
    """Compare the resources of two programs."""
    olds, news = {resource.key: resource for resource in before}, {resource.key: resource for resource in after}
    differing = [Difference(Effect.CREATE, new) for key, new in news.items() if key not in olds]
    differing += [Difference(Effect.DELETE, old) for key, old in olds.items() if key not in news]
    for key in olds.keys() & news.keys():
        if changes := tuple(_changes(_of(olds[key]), _of(news[key]))):
            differing.append(Difference(effect_of(olds[key], news[key]), news[key], changes))
    return tuple(sorted(differing, key=lambda difference: (difference.resource.key, difference.effect)))


def _of(resource: Registered) -> Mapping[str, object]:
    return {**resource.inputs, "(protected)": resource.protect, "(retained)": resource.retain}


def _changes(before: Mapping[str, object], after: Mapping[str, object]) -> Iterator[PropertyChange]:
    olds, news = dict(_leaves(before, "")), dict(_leaves(after, ""))
    for path in sorted(olds.keys() | news.keys()):
        if olds.get(path) != news.get(path):
            yield PropertyChange(path, olds.get(path, ""), news.get(path, ""))


def _leaves(value: object, path: str) -> Iterator[tuple[str, str]]:
    """Each value that has no parts, by its path; documents in JSON are walked through as well."""
    value = _parsed(value)
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list) and value:
        for number, item in enumerate(value):
            # Statements of policies are known by their names: one more does not move the others.
            name = item.get("Sid", number) if isinstance(item, Mapping) else number
            yield from _leaves(item, f"{path}[{name}]")
    else:
        yield path, json.dumps(value, ensure_ascii=False, sort_keys=True, default=str)


def _parsed(value: object) -> object:
    if not (isinstance(value, str) and value.startswith(("{", "["))):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value
