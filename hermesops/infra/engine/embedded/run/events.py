"""Events of a run: steps and diagnostics."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from hermesops.infra.engine.embedded.protocol import urns
from hermesops.infra.engine.embedded.protocol.values import Message
from hermesops.infra.engine.options import Progress, Reporter


class Op(StrEnum):
    """Kind of a step on a resource, in the CLI's words."""

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
SEVERITIES = ("debug", "info", "warning", "error")
PHASES = {"pre": "begun", "outputs": "done", "failed": "failed"}


@dataclass(frozen=True)
class Step:
    """One step on one resource.

    Attributes:
        keys: Properties that force a replacement.
        detailed: Differences by property: ``{"diffKind": "update", "inputDiff": True}``.
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


@dataclass
class EventLog:
    """Collects the events of a run and passes them on at once.

    Attributes:
        listener: Called with each event as a line of narration, except for default providers, which are invisible.
    """

    listener: Reporter | None = None
    events: list[Event] = field(default_factory=list)

    def report(self, event: Event) -> None:
        """Record an event; never fails the run."""
        self.events.append(event)
        if self.listener is None:
            return
        urn = event.urn if isinstance(event, Diagnostic) else event.step.urn
        about = {"type": urns.type_of(urn), "name": urns.name_of(urn)} if urn else {}
        match event:
            case Diagnostic():
                self.listener(Progress(event.severity, **about, message=event.message.rstrip()))
            case StepEvent() if not urns.is_default_provider(urn):
                self.listener(Progress(PHASES[event.phase], str(event.step.op), **about))

    def report_line(self, line: Message, loop: asyncio.AbstractEventLoop) -> None:
        """Record a ``LogRequest`` of the program or of a plugin, from any thread; debug lines are dropped."""
        if line.severity > 0 and not loop.is_closed():
            diagnostic = Diagnostic(SEVERITIES[min(line.severity, 3)], line.message, line.urn)
            loop.call_soon_threadsafe(self.report, diagnostic)

    def step(self, phase: str, step: Step, resource_id: str = "") -> None:
        """Record a phase of a step."""
        self.report(StepEvent(phase, step, resource_id))

    def warning(self, message: str, urn: str = "") -> None:
        """Record a warning, about a resource or the run."""
        self.report(Diagnostic("warning", message, urn))
