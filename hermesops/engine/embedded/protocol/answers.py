"""What providers answer, in terms of property values. Pure but for protobuf messages."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from hermesops.engine.embedded.protocol.opaque import Message, Property
from hermesops.engine.embedded.protocol.values import Secret, has_secret


class Differs(Enum):
    """What a provider says when asked whether two versions differ."""

    UNKNOWN = 0
    NO = 1
    YES = 2


@dataclass(frozen=True)
class Difference:
    """A provider's answer to Diff or DiffConfig."""

    differs: Differs
    diffs: tuple[str, ...] = ()
    replaces: tuple[str, ...] = ()
    detailed: Mapping[str, Any] | None = None
    delete_first: bool = False


@dataclass(frozen=True)
class Problem:
    """One reason why a provider's Check refuses inputs; ``property`` may be empty."""

    property: str
    reason: str


@dataclass(frozen=True)
class Found:
    """What a provider sees of a thing that exists.

    Attributes:
        reasons: Why it is not what it should be; empty when it is well.
    """

    id: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    reasons: tuple[str, ...] = ()


def difference_of(answer: Message) -> Difference:
    """Read a DiffResponse."""
    detailed = None
    if answer.hasDetailedDiff:
        detailed = {path: _detail(item) for path, item in answer.detailedDiff.items()}
    return Difference(
        differs=Differs(answer.changes),
        diffs=tuple(answer.diffs),
        replaces=tuple(answer.replaces),
        detailed=detailed,
        delete_first=answer.deleteBeforeReplace,
    )


DETAIL_KINDS = ("add", "add-replace", "delete", "delete-replace", "update", "update-replace")


def _detail(item: Message) -> dict[str, Any]:
    return {"diffKind": DETAIL_KINDS[item.kind], "inputDiff": item.inputDiff}


def as_variable(value: Property) -> str:
    """Write a setting as the text that a plugin's configuration variables hold."""
    return value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))


def marked_again(answer: dict[str, Any], sent: Mapping[str, Any]) -> dict[str, Any]:
    """Put secret marks back where the same property was secret before the plugin saw it bare."""
    return {key: _marked(value, sent.get(key)) for key, value in answer.items()}


def _marked(value: Property, before: Property) -> Property:
    match before:
        case Secret():
            return value if isinstance(value, Secret) else Secret(value)
        case dict() if isinstance(value, dict) and has_secret(before):
            return marked_again(value, before)
        case list() if isinstance(value, list) and has_secret(before):
            padded = [*before, *([None] * len(value))]
            return [_marked(item, padded[index]) for index, item in enumerate(value)]
        case _:
            return value
