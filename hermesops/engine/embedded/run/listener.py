"""Tells the caller of a run what happens in it."""

from collections.abc import Callable

from hermesops.engine.embedded.protocol import urns
from hermesops.engine.embedded.run.events import Diagnostic, Event, StepEvent
from hermesops.engine.interface import Progress, Tell


def listener(tell: Tell | None) -> Callable[[Event], None] | None:
    """Put events as lines of narration; providers that nobody asked for are left out. None where nobody listens."""
    if tell is None:
        return None
    kinds = {"pre": "begun", "outputs": "done", "failed": "failed"}

    def listen(event: Event) -> None:
        urn = event.urn if isinstance(event, Diagnostic) else event.step.urn
        kind = urns.type_of(urn) if urn else ""
        name = urns.name_of(urn) if urn else ""
        match event:
            case Diagnostic():
                tell(Progress(event.severity, type=kind, name=name, message=event.message.rstrip()))
            case StepEvent():
                if not urns.is_default_provider(urn):
                    tell(Progress(kinds[event.phase], str(event.step.op), kind, name))

    return listen
