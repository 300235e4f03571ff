"""Actions as the served console's operators ask for them: rows of the one table, which workers preview and begin.

Nothing here serves pages, so that workers import it. Whatever a row has was written by a process that browsers feed.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermesops import __version__
from hermesops.agents.operator_requests.actions import BegunAction, RequestedAction
from hermesops.console.actions import links, questions
from hermesops.console.actions.action import Action, ActionRequest, Begun, Preview, RepeatableWork, offer_served
from hermesops.console.actions.form import form_of_row
from hermesops.console.actions.operations import DRY_RUN
from hermesops.console.actions.table import ACTIONS, find, subject_of
from hermesops.errors import Hint, RefusedError, UnavailableError, UsageError
from hermesops.model.access.console_operator import ConsoleOperator, Role
from hermesops.model.access.operator_request import OperatorRequest
from hermesops.store.operations.db_thread import in_db_thread

if TYPE_CHECKING:
    from hermesops.app.connected import Connected

_LONGEST_PREVIEW = 1_000_000
"""Characters of a preview in a row: that of a rollback of ten thousand agents is shorter."""


def served_actions() -> Sequence[Action]:
    """The actions that the served console offers, with the values that its operators may give."""
    return [action for action in map(offer_served, ACTIONS) if action is not None]


def find_served(about: str, name: str) -> Action | None:
    """An offered action by its kind of subject and its name; ``None`` where there is none."""
    action = find(about, name)
    return offer_served(action) if action is not None else None


@dataclass(frozen=True)
class ServedAction:
    """The action of a request, for a worker."""

    connected: "Connected"
    action: Action
    request: OperatorRequest

    @property
    def role(self) -> Role:
        """The role that it needs."""
        return self.action.role or Role.ADMIN

    @property
    def needs_recent_sign_in(self) -> bool:
        """Whether it destroys something."""
        return self.action.destroys

    async def preview(self) -> str:
        """Its preview as JSON, made as the loopback console makes it.

        Raises:
            HermesError: It is refused now, has a value that no page sends, or its preview is too long for a row.
        """
        wanted = await self._wanted(DRY_RUN)
        text = text_of(await self.action.work.preview(self.connected.container, wanted))
        if len(text) > _LONGEST_PREVIEW:
            hint = Hint((*self.action.command(wanted), "--dry-run"))
            raise RefusedError("the preview is too long for a page; use the command", hint=hint)
        return text

    async def begin(self, operator: ConsoleOperator, reason: str) -> BegunAction:
        """Begin it as the loopback console does, or find what has begun for this reason; the workers go on with it."""
        del operator  # whom the audit names already
        wanted, work = await self._wanted(reason), self.action.work
        if not isinstance(work, RepeatableWork):
            raise RefusedError("the served console does not offer this", hint=Hint(self.action.command(wanted)))
        return await self._left(
            await work.find_begun(self.connected, wanted) or await work.begin(self.connected, wanted)
        )

    async def find_begun(self, reason: str) -> BegunAction | None:
        """Whatever has begun for this reason; ``None`` for nothing, as for a request that no page sends."""
        work = self.action.work
        if not isinstance(work, RepeatableWork) or not self.action.takes_reason:
            return None  # without a reason, nothing that is found says by whom it was begun
        try:
            begun = await work.find_begun(self.connected, await self._wanted(reason))
        except UsageError:  # the begin says it to those who may ask
            return None
        return await self._left(begun) if begun is not None else None

    async def _left(self, begun: Begun) -> BegunAction:
        """Leave what has begun to the workers."""
        if begun.leave is not None:
            await in_db_thread(begun.leave, self.connected)
        return BegunAction(begun.page, begun.operation_id)

    async def _wanted(self, reason: str) -> ActionRequest:
        """The request with its values.

        Raises:
            UsageError: There is no such subject, or a value is missing or one that no page sends.
        """
        action, container = self.action, self.connected.container
        subject = await subject_of(container, action.about, self.request.subject)
        form = form_of_row(self.request.form)
        if unknown := form.keys() - {field.name for field in action.fields}:
            raise UsageError(f"the served console does not accept the value {min(unknown)!r} here")
        values = action.values(form)
        if missing := action.missing(values):
            raise UsageError("missing", field=missing[0].name)
        return ActionRequest(subject, values, reason)


def action_of(connected: "Connected", request: OperatorRequest) -> RequestedAction | None:
    """The action of a request; ``None`` for one that the served console does not offer."""
    if request.about == links.ABOUT:
        return links.LinkAction(connected, request) if request.action in {links.KEEP, links.FORGET} else None
    if request.about == questions.ABOUT:
        return questions.question_of(connected, request)
    action = find_served(request.about, request.action)
    return ServedAction(connected, action, request) if action is not None else None


def text_of(preview: Preview) -> str:
    """A preview as JSON."""
    content = {"kind": preview.kind, "shape": preview.shape, "words": preview.words, "version": __version__}
    return json.dumps(content, default=str)


def preview_of(text: str) -> Preview:
    """The preview in a row.

    Raises:
        UnavailableError: It is of another hermesops, whose shapes may differ.
    """
    content: Any = json.loads(text)
    if not isinstance(content, dict) or content.get("version") != __version__:
        raise UnavailableError("the preview was made by another version of hermesops; load the page again")
    return Preview(content["kind"], content["shape"], content["words"])
