"""The link that an operator of the served console keeps or forgets, as a worker carries it out.

It is no command of hermesops: it changes a page of this operator and nothing else.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.operator_requests.actions import BegunAction
from hermesops.console.actions.form import form_of_row
from hermesops.console.saved_links import parse_link, parse_name
from hermesops.errors import RefusedError, UsageError
from hermesops.model.access.console_operator import ConsoleOperator, Role
from hermesops.store.operations.db_thread import in_db_thread

if TYPE_CHECKING:
    from hermesops.app.connected import Connected
    from hermesops.model.access.operator_request import OperatorRequest

ABOUT = "links"
KEEP, FORGET = "keep", "forget"
"""Kind of the subject, and names of the actions, in rows."""

LIST = "more"
"""Path of the page that has the links, below the console's."""


@dataclass(frozen=True)
class LinkAction:
    """The action of a request."""

    connected: "Connected"
    request: "OperatorRequest"

    role = Role.VIEWER
    needs_recent_sign_in = False

    async def preview(self) -> str:
        """There is none.

        Raises:
            RefusedError: Always.
        """
        raise RefusedError("a link has no preview")

    async def find_begun(self, reason: str) -> None:
        """Nothing: a link is safe to keep again."""

    async def begin(self, operator: ConsoleOperator, reason: str) -> BegunAction:
        """Keep or forget the link of the operator who was proved; safe to repeat.

        Raises:
            UsageError: The name or the page cannot be, or there are too many.
        """
        del reason  # of no change of the fleet
        links, form = self.connected.container.operator_links, form_of_row(self.request.form)
        if form.keys() - {"name", "page"}:
            raise UsageError("a link has a name and a page")
        if self.request.action == FORGET:
            await in_db_thread(links.forget, operator.name, parse_name(form.get("name", "")))
        else:
            await in_db_thread(links.keep, operator.name, *parse_link(form.get("name", ""), form.get("page", "")))
        return BegunAction(LIST)
