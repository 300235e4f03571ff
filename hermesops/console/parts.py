"""The parts that routes of the console use."""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.console.actions.running import RunningActions
from hermesops.console.live import Streams
from hermesops.console.rendering import Pages
from hermesops.console.sources import Sources

if TYPE_CHECKING:
    from starlette.requests import Request

    from hermesops.app.container import Container


@dataclass(frozen=True)
class Console:
    """Everything that a page needs."""

    container: "Container"
    pages: Pages
    sources: Sources
    streams: Streams
    running: RunningActions

    @classmethod
    def of(cls, container: "Container", named: str) -> "Console":
        """The parts over a container.

        Args:
            named: The name that commands have to give by ``--env``; empty where that is not needed.
        """
        sources = Sources(container)
        return cls(container, Pages(container.env.name, named), sources, Streams(sources), RunningActions(container))


def console_of(request: "Request") -> Console:
    """The parts of the application that serves a request."""
    console: Console = request.app.state.console
    return console
