"""The parts that routes of the console use."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.console.actions.action import About, Action
from hermesops.console.actions.running import RunningActions
from hermesops.console.actions.table import about
from hermesops.console.live import Streams
from hermesops.console.rendering import Pages, may_change
from hermesops.console.sources import Sources

if TYPE_CHECKING:
    from starlette.requests import Request

    from hermesops.app.container import Container
    from hermesops.console.operators.requested import RequestedActions


@dataclass(frozen=True)
class Console:
    """Everything that a page needs.

    Attributes:
        is_served: Whether several operators use it, from elsewhere; workers then carry actions out.
    """

    container: "Container"
    pages: Pages
    sources: Sources
    streams: Streams
    running: "RunningActions | RequestedActions"
    is_served: bool = False

    @classmethod
    def of(cls, container: "Container", named: str) -> "Console":
        """The parts over a container.

        Args:
            named: The name that commands have to give by ``--env``; empty where that is not needed.
        """
        sources = Sources(container)
        return cls(container, Pages(container.env.name, named), sources, Streams(sources), RunningActions(container))

    def actions(self, subject: About) -> Mapping[str, Action]:
        """The actions that the operator of this request may begin, by their names."""
        return {
            name: action
            for name, action in about(subject).items()
            if self.running.offers(action) and may_change(subject, name)
        }


def console_of(request: "Request") -> Console:
    """The parts of the application that serves a request."""
    console: Console = request.app.state.console
    return console
