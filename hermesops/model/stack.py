"""Results of an engine about a stack: changes, previews, outputs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ChangeKind(StrEnum):
    """Kinds of changes of one resource."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    REPLACE = "replace"
    DELETE = "delete"
    READ = "read"
    REFRESH = "refresh"
    IMPORT = "import"


@dataclass(frozen=True)
class StackRef:
    """Names of a stack in Pulumi: project and stack, which is the cell's name."""

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
    """Planned changes of a stack; nothing was changed."""

    stack: StackRef
    changes: tuple[Change, ...]

    @property
    def destructive(self) -> tuple[Change, ...]:
        """The changes that destroy something: deletes and replacements."""
        return tuple(c for c in self.changes if c.kind in {ChangeKind.DELETE, ChangeKind.REPLACE})


@dataclass(frozen=True)
class UpResult:
    """Changes that an engine made to a stack.

    Attributes:
        outputs: The stack's outputs; secrets are masked.
    """

    stack: StackRef
    changes: tuple[Change, ...]
    outputs: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Import:
    """Something that exists and that a stack shall manage from now on.

    Attributes:
        type: Pulumi type token, as ``justavps:index:Machine``.
        protect: Whether it is protected from deletion until a program says otherwise.
    """

    type: str
    name: str
    id: str
    protect: bool = True


@dataclass(frozen=True)
class StackHistoryEntry:
    """One operation in a stack's history.

    Attributes:
        kind: ``update``, ``destroy``, ``refresh`` or ``import``.
        failed: Whether it ended in an error; it may have changed something all the same.
        changes: How many resources each kind of step ended well for.
    """

    kind: str
    started: datetime
    ended: datetime
    failed: bool
    changes: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Unfinished:
    """Something that an interrupted run had begun.

    Attributes:
        kind: ``creating``, ``updating``, ``deleting`` …, as the state has it.
    """

    kind: str
    urn: str
    type: str
    name: str


@dataclass(frozen=True)
class StateVersion:
    """A copy of a stack's state that can be restored.

    Attributes:
        version: Nanoseconds since 1970, as in the copy's file name.
        what: What had ended then, as ``update succeeded``; empty for a copy taken before something began.
        resources: How many resources it holds; None: it is damaged.
        current: Whether the state is the same now.
    """

    version: str
    at: datetime
    what: str
    resources: int | None
    current: bool
