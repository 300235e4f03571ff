"""What a run tells while it runs: steps and diagnostics."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Op(StrEnum):
    """What is done to a resource, in the CLI's words."""

    SAME = "same"
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    REPLACE = "replace"
    CREATE_REPLACEMENT = "create-replacement"
    DELETE_REPLACED = "delete-replaced"
    IMPORT = "import"
    IMPORT_REPLACEMENT = "import-replacement"
    REFRESH = "refresh"


COUNTED = frozenset({Op.SAME, Op.CREATE, Op.UPDATE, Op.DELETE, Op.REPLACE, Op.IMPORT})


@dataclass(frozen=True)
class Step:
    """Something happens to one resource.

    Attributes:
        keys: Properties that force a replacement.
        diffs: Properties that differ.
        detailed: Per property what differs: ``{"diffKind": "update", "inputDiff": True}``.
    """

    op: Op
    urn: str
    keys: tuple[str, ...] = ()
    diffs: tuple[str, ...] = ()
    detailed: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class StepEvent:
    """A step begins (``pre``), has outputs (``outputs``) or failed (``failed``)."""

    phase: str
    step: Step
    id: str = ""


@dataclass(frozen=True)
class Diagnostic:
    """A line for the operator; ``urn`` says about which resource, when about one."""

    severity: str
    message: str
    urn: str = ""


Event = StepEvent | Diagnostic
Listener = Callable[[Event], None]


@dataclass
class EventLog:
    """Collects what a run tells and hands it on at once."""

    listener: Listener | None = None
    events: list[Event] = field(default_factory=list)

    def tell(self, event: Event) -> None:
        """Record an event; never fails the run."""
        self.events.append(event)
        if self.listener is not None:
            self.listener(event)

    def step(self, phase: str, step: Step, resource_id: str = "") -> None:
        """Record a phase of a step."""
        self.tell(StepEvent(phase, step, resource_id))

    def error(self, message: str, urn: str = "") -> None:
        """Record an error."""
        self.tell(Diagnostic("error", message, urn))

    def warning(self, message: str, urn: str = "") -> None:
        """Record a warning."""
        self.tell(Diagnostic("warning", message, urn))

    def errors(self) -> list[Diagnostic]:
        """All errors so far."""
        return [event for event in self.events if isinstance(event, Diagnostic) and event.severity == "error"]
