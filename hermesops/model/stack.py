"""What an engine says about a stack: changes, previews, results."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class ChangeKind(StrEnum):
    """What happens to one resource."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    READ = "read"
    REFRESH = "refresh"


@dataclass(frozen=True)
class StackRef:
    """Which stack: Pulumi's project and stack name (a cell's name)."""

    project: str
    stack: str


@dataclass(frozen=True)
class Change:
    """One resource that is, or would be, changed.

    Attributes:
        urn: Pulumi's name of it.
        type: Pulumi type token, as ``justavps:index:Machine``.
        name: Its logical name (the machine's name for a machine).
        id: The vendor's id where one is known.
        properties: Names of the properties that differ.
    """

    kind: ChangeKind
    urn: str
    type: str
    name: str
    id: str = ""
    properties: tuple[str, ...] = ()


@dataclass(frozen=True)
class Preview:
    """What would change; nothing did."""

    stack: StackRef
    changes: tuple[Change, ...]

    @property
    def destructive(self) -> tuple[Change, ...]:
        """The changes that destroy something: deletes and replacements."""
        return tuple(c for c in self.changes if c.kind in {ChangeKind.DELETE, ChangeKind.REPLACE})


@dataclass(frozen=True)
class UpResult:
    """What changed.

    Attributes:
        outputs: The stack's outputs; secrets are masked.
    """

    stack: StackRef
    changes: tuple[Change, ...]
    outputs: Mapping[str, object] = field(default_factory=dict)
