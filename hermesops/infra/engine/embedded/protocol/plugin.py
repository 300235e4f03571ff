"""Answers and errors of provider plugins. No process and no socket here."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from hermesops.infra.engine.embedded.protocol.values import Message

DIED = "error reading from server: EOF"
"""The CLI's message for a call during which the plugin died."""


@dataclass(frozen=True)
class HalfMade:
    """Detail of a failed call (``ErrorResourceInitFailed``): the resource exists, but is not as it should be."""

    id: str
    properties: Mapping[str, Any]
    reasons: tuple[str, ...]


@dataclass
class ProviderFaultError(Exception):
    """A plugin's call failed.

    Attributes:
        code: The gRPC status name, as ``UNKNOWN`` or ``UNAVAILABLE``.
        half_made: The resource, if one was made nevertheless.
    """

    code: str
    message: str
    half_made: HalfMade | None = None
    about: str = field(default="")

    def __str__(self) -> str:
        return self.message


def describe(fault: ProviderFaultError) -> str:
    """Put a plugin's error as the CLI does."""
    if fault.half_made is None:
        return fault.message
    reasons = fault.half_made.reasons
    lines = "".join(f"\t* {reason}\n" for reason in reasons)
    return f"{len(reasons)} error{'s' * (len(reasons) != 1)} occurred:\n{lines}\n"


class Differs(Enum):
    """Answer of a provider on whether two versions differ."""

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
    """Resource as read by a provider.

    Attributes:
        reasons: Problems of the resource; empty for none.
    """

    id: str
    inputs: Mapping[str, Any]
    outputs: Mapping[str, Any]
    reasons: tuple[str, ...] = ()


DETAIL_KINDS = ("add", "add-replace", "delete", "delete-replace", "update", "update-replace")


def difference_of(answer: Message) -> Difference:
    """Convert a plugin's DiffResponse to a ``Difference``."""
    detailed = None
    if answer.hasDetailedDiff:
        detailed = {
            path: {"diffKind": DETAIL_KINDS[item.kind], "inputDiff": item.inputDiff}
            for path, item in answer.detailedDiff.items()
        }
    return Difference(
        differs=Differs(answer.changes),
        diffs=tuple(answer.diffs),
        replaces=tuple(answer.replaces),
        detailed=detailed,
        delete_first=answer.deleteBeforeReplace,
    )
