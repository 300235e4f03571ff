"""The parts that routes of the console use."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.console.actions.action import About, Action
from hermesops.console.actions.command_pages import page_of_command, page_of_reading
from hermesops.console.actions.running import RunningActions
from hermesops.console.actions.table import ACTIONS, about
from hermesops.console.live import Streams
from hermesops.console.operators.gate import current
from hermesops.console.rendering import Pages, may_change
from hermesops.console.saved_links import LinksOfComputer, SavedLinks
from hermesops.console.sources import Sources
from hermesops.console.topics import listings, questions
from hermesops.console.topics.listings import Listing
from hermesops.console.topics.questions import Question
from hermesops.model.access.console_operator import Role

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
    links: SavedLinks
    is_served: bool = False

    @classmethod
    def of(cls, container: "Container", named: str) -> "Console":
        """The parts over a container.

        Args:
            named: The name that commands have to give by ``--env``; empty where that is not needed.
        """
        sources, links = Sources(container), LinksOfComputer(container.env.folder)
        pages, running = Pages(container.env.name, named), RunningActions(container)
        return cls(container, pages, sources, Streams(sources), running, links)

    def actions(self, subject: About) -> Mapping[str, Action]:
        """The actions that the operator of this request may begin, by their names."""
        return {
            name: action
            for name, action in about(subject).items()
            if self.running.offers(action) and may_change(subject, name)
        }

    def left(self, *subjects: About) -> Sequence[Action]:
        """The actions that this console leaves to their commands; none on one's own computer."""
        return [action for action in ACTIONS if self.is_served and action.about in subjects and action.role is None]

    def offer(self, action: Action) -> Action | None:
        """The action with the values that this operator may give; ``None`` for one that they may not begin here."""
        is_offered = self.running.offers(action) and may_change(action.about, action.name)
        return self.running.offered(action) if is_offered else None

    def page_of(self, command: Sequence[str]) -> str | None:
        """The page of the action that a command is, or of whatever it shows; ``None`` where there is none. Blocks."""
        action = page_of_command(self.container, command, self.offer)
        return action or page_of_reading(self.container, command, [*self.lists, *self.questions])

    @property
    def lists(self) -> Sequence[Listing]:
        """The lists that have a page here."""
        return [*(listings.OF_OPERATORS if self.is_served else listings.LISTINGS).values()]

    @property
    def questions(self) -> Sequence[Question]:
        """The pages here for which others are asked, and the operator of this request may ask."""
        if not self.is_served:
            return [*questions.QUESTIONS.values()]
        return [
            question for question in questions.OF_OPERATORS.values() if current().role >= (question.role or Role.ADMIN)
        ]


def console_of(request: "Request") -> Console:
    """The parts of the application that serves a request."""
    console: Console = request.app.state.console
    return console
