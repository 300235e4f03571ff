"""The step for one resource, from its present state, the wanted one and the provider's answer. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hermesops.infra.engine.embedded.protocol.plugin import Difference, Differs
from hermesops.infra.engine.embedded.protocol.values import Property, Secret
from hermesops.infra.engine.embedded.run.events import Op, Step
from hermesops.infra.engine.embedded.state.deployment import Resource


class Way(Enum):
    """The ways from an existing resource to the wanted one."""

    SAME = "same"
    UPDATE = "update"
    REPLACE_NEW_FIRST = "replace, new first"
    REPLACE_OLD_FIRST = "replace, old first"


@dataclass(frozen=True)
class Decision:
    """Way to change one existing resource, with the properties that decided it."""

    way: Way
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed: Mapping[str, Any] | None = None

    def step(self, op: Op, urn: str) -> Step:
        """Describe one of the steps that follow from it."""
        return Step(op, urn, self.keys, self.diffs, self.detailed)


def decide(old: Resource, inputs: Mapping[str, Any], difference: Difference, *, delete_first: bool | None) -> Decision:
    """Choose the step that gives an existing resource its desired inputs.

    ``inputs`` is the answer of Check and ``difference`` that of Diff; if it is "unknown", this function compares the
    inputs itself. ``delete_first`` comes from the program and overrules the provider either way.
    """
    if difference.differs is Differs.UNKNOWN:
        detailed = compare(old.inputs, inputs)
        if not detailed:
            return _unless_half_made(old)
        return Decision(Way.UPDATE, diffs=tuple(sorted({top(path) for path in detailed})), detailed=detailed)
    if difference.replaces:
        first = difference.delete_first if delete_first is None else delete_first
        way = Way.REPLACE_OLD_FIRST if first else Way.REPLACE_NEW_FIRST
        return Decision(way, difference.replaces, difference.diffs, difference.detailed)
    if difference.differs is Differs.YES:
        return Decision(Way.UPDATE, diffs=difference.diffs, detailed=difference.detailed)
    return _unless_half_made(old)


def _unless_half_made(old: Resource) -> Decision:
    """A resource with a half-done create or update is updated even if nothing differs."""
    return Decision(Way.UPDATE if old.init_errors else Way.SAME)


def top(path: str) -> str:
    """The property that a path of a detailed difference belongs to."""
    return path.split(".", 1)[0].split("[", 1)[0]


def compare(old: Property, new: Property, path: str = "") -> dict[str, Any]:
    """Name every place where two values differ, as a provider's detailed diff would."""
    match old, new:
        case dict() | Mapping(), dict() | Mapping():
            differing: dict[str, Any] = {}
            for key in sorted({*old, *new}):
                inner = f"{path}.{key}" if path else key
                differing.update(_compare_at(inner, old, new, key))
            return differing
        case list(), list():
            differing = {}
            for index in range(max(len(old), len(new))):
                pair = dict(enumerate(old)), dict(enumerate(new))
                differing.update(_compare_at(f"{path}[{index}]", *pair, index))
            return differing
        case Secret(), Secret():
            return {} if old == new else {path: _detail("update")}
        case _:
            is_same = isinstance(old, bool) == isinstance(new, bool) and bool(old == new)
            return {} if is_same else {path: _detail("update")}


def _compare_at(path: str, old: Mapping[Any, Any], new: Mapping[Any, Any], key: Property) -> dict[str, Any]:
    if key not in old:
        return {path: _detail("add")}
    if key not in new:
        return {path: _detail("delete")}
    return compare(old[key], new[key], path)


def _detail(kind: str) -> dict[str, Any]:
    return {"diffKind": kind, "inputDiff": True}
