"""Actions of the served console: each is a row with the operator's proof, which workers preview or carry out."""

import asyncio
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hermesops.agents.operator_requests.carrier import CODES
from hermesops.base.waiting import pause
from hermesops.console.actions import questions
from hermesops.console.actions.action import Action, ActionRequest, Preview, bounded
from hermesops.console.actions.operations import DRY_RUN
from hermesops.console.actions.served import preview_of
from hermesops.console.operators.gate import PAGES, current
from hermesops.console.operators.roles import role_needed, role_of
from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.access.operator_request import (
    NewOperatorRequest,
    OperatorRequest,
    OperatorRequestState,
    hint_of,
)

if TYPE_CHECKING:
    from hermesops.app.console_container import ConsoleContainer
    from hermesops.console.topics.questions import Question

_WITHIN_S = 75.0
"""Seconds that a page waits for a worker's decision: the preview of a rollback asks silent machines for a minute."""

_ROOM_S = 45.0
"""Seconds that a request waits for room among the operator's requests that nobody decided: bulk actions have 50."""

_EVERY_S = 0.3


@dataclass(frozen=True)
class RequestedActions:
    """Asks workers to preview and carry out actions, as the operator of the present request."""

    container: "ConsoleContainer"
    within_s: float = _WITHIN_S

    def offers(self, action: Action) -> bool:
        """Whether workers carry an action out."""
        return action.role is not None

    def offered(self, action: Action) -> Action:
        """The action with the values that operators may give here."""
        return action.as_served()

    async def preview(self, action: Action, request: ActionRequest) -> Preview:
        """The preview of an action, which a worker makes.

        Raises:
            HermesError: The action is refused now.
            UnavailableError: No worker decides.
        """
        return preview_of((await self._decided(action, request, is_preview=True)).answer)

    async def begin(self, action: Action, request: ActionRequest, slots: asyncio.Semaphore | None = None) -> str:
        """Have a worker begin an action; returns the path of its page, below the console's.

        Raises:
            HermesError: The action is refused; nothing was changed.
            UnknownOutcomeError: No worker decides; one may do so within a quarter of an hour.
        """
        del slots  # workers bound what runs at the same time
        return (await self._decided(action, request, is_preview=False)).answer

    async def close(self) -> list[str]:
        """Nothing runs in this process."""
        return []

    async def _decided(self, action: Action, request: ActionRequest, *, is_preview: bool) -> OperatorRequest:
        """Add a request of the present operator, and wait for its decision."""
        admission = current()
        if not self.offers(action) or admission.operator is None:
            why = f": {action.left_because}" if action.left_because else ""
            raise RefusedError(f"this is left to its command{why}", hint=Hint(action.command(request)))
        role = role_of(action)
        if admission.role < role:
            raise RefusedError(f"{action.title} needs the role {role.word}")
        new = NewOperatorRequest(
            operator=admission.operator.name,
            about=action.about.value,
            subject=request.subject.id,
            action=action.name,
            form={name: value for name, value in request.values.items() if value},
            reason=request.reason or DRY_RUN,
            proof=admission.proof,
            is_preview=is_preview,
        )
        return await self._answered(new)

    async def answer(self, question: "Question", filters: Mapping[str, str]) -> Mapping[str, Any]:
        """The shape of a page's content, for which a worker asks others; it links to what the operator may begin.

        Raises:
            HermesError: Nobody answers, or the operator may not ask.
            UnavailableError: No worker asks.
        """
        given = {name: bounded(text, name) for name, text in filters.items() if text}
        request = await self.ask(questions.ABOUT, question.name, given, DRY_RUN, is_preview=True)
        shape = questions.answer_of(request.answer)
        links = {"pages": [], "several": {}, **shape}
        pages = [page if may_open(page) else "" for page in links["pages"]]
        return {**shape, "pages": pages, "several": {page: n for page, n in links["several"].items() if may_open(page)}}

    async def ask(
        self, about: str, action: str, form: Mapping[str, str], reason: str, *, is_preview: bool = False
    ) -> OperatorRequest:
        """Have a worker do what is no action of the table, for the present operator; the decided request.

        Raises:
            HermesError: It is refused.
            UnknownOutcomeError: As ``begin``.
        """
        admission = current()
        if admission.operator is None:
            raise RefusedError("nobody is signed in")
        name, proof = admission.operator.name, admission.proof
        new = NewOperatorRequest(name, about, "", action, form, reason, proof, is_preview=is_preview)
        return await self._answered(new)

    async def _answered(self, new: NewOperatorRequest) -> OperatorRequest:
        until = time.monotonic() + self.within_s
        return await self._waited(await self._added(new), new, until)

    async def _added(self, new: NewOperatorRequest) -> str:
        """Add a request once there is room for it; returns its id.

        Raises:
            RefusedError: There is none within three quarters of a minute.
        """
        until, rows = time.monotonic() + min(_ROOM_S, self.within_s), self.container.operator_request_rows
        while True:
            if id_ := await asyncio.to_thread(rows.add, new):
                return id_
            if time.monotonic() >= until:
                raise RefusedError("too many requests wait for workers; try again later", hint=Hint(("job", "list")))
            await pause(_EVERY_S)

    async def _waited(self, id_: str, new: NewOperatorRequest, until: float) -> OperatorRequest:
        while time.monotonic() < until:
            request = await asyncio.to_thread(self.container.operator_request_rows.get, id_)
            if request is not None and request.state is OperatorRequestState.REFUSED:
                raise CODES.get(request.code, RefusedError)(request.detail, hint=hint_of(json.loads(request.answer)))
            if request is not None and request.state is not OperatorRequestState.QUEUED:
                return request
            await pause(_EVERY_S)
        undecided = UnavailableError if new.is_preview else UnknownOutcomeError
        raise undecided(
            f"no worker has decided request {id_}; one may still do so within a quarter of an hour",
            hint=Hint(("job", "list"), "shows whether workers run operator-requests"),
        )


def may_open(page: str) -> bool:
    """Whether the operator of this request has the role for a page, below the console's."""
    return current().role >= role_needed("GET", f"{PAGES}{page.partition('?')[0]}")
