"""Actions of the served console: each is a row with the operator's proof, which workers preview or carry out."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.operator_requests.actions import ACTIONS
from hermesops.agents.operator_requests.carrier import CODES
from hermesops.agents.operator_requests.previews import preview_of
from hermesops.base.waiting import pause
from hermesops.console.actions.action import About, Action, ActionRequest, Preview
from hermesops.console.actions.operations import DRY_RUN
from hermesops.console.operators.gate import current
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.operator_request import OperatorRequest, OperatorRequestState, hint_of
from hermesops.model.ids import InstanceId
from hermesops.views.agents import change_words
from hermesops.views.agents.change_previews import change_preview

if TYPE_CHECKING:
    from hermesops.app.console_container import ConsoleContainer

_WITHIN_S = 30.0
"""Seconds that a page waits for a worker's decision."""

_EVERY_S = 0.3


@dataclass(frozen=True)
class RequestedActions:
    """Asks workers to preview and carry out actions, as the operator of the present request."""

    container: "ConsoleContainer"
    within_s: float = _WITHIN_S

    def offers(self, action: Action) -> bool:
        """Whether workers carry an action out."""
        return action.about is About.INSTANCE and action.name in ACTIONS

    async def preview(self, action: Action, request: ActionRequest) -> Preview:
        """The preview of an action, which a worker makes.

        Raises:
            HermesError: The action is refused now.
            UnavailableError: No worker decides.
        """
        planned = preview_of((await self._decided(action, request, is_preview=True)).answer)
        return Preview("operation", change_preview(planned), change_words.sentences(planned))

    async def begin(self, action: Action, request: ActionRequest, slots: asyncio.Semaphore | None = None) -> str:
        """Have a worker open the operation of an action; returns the path of its page, below the console's.

        Raises:
            HermesError: The action is refused; nothing was changed.
            UnavailableError: No worker decides; one may do so within a quarter of an hour.
        """
        del slots  # workers bound what runs at the same time
        decided = await self._decided(action, request, is_preview=False)
        if decided.operation_id is None:
            raise RefusedError("this request opened no operation")
        return f"operations/{decided.operation_id}"

    async def close(self) -> list[str]:
        """Nothing runs in this process."""
        return []

    async def _decided(self, action: Action, request: ActionRequest, *, is_preview: bool) -> OperatorRequest:
        """Add a request of the present operator, and wait for its decision."""
        admission, rows = current(), self.container.operator_request_rows
        is_offered = self.offers(action) and not any(request.values.values())
        if not is_offered or admission.operator is None:
            raise RefusedError("the served console does not offer this", hint=Hint(action.command(request)))
        role = ACTIONS[action.name].role
        if admission.role < role:
            raise RefusedError(f"{action.title} needs the role {role.word}")
        id_ = await asyncio.to_thread(
            rows.add,
            admission.operator.name,
            action.name,
            InstanceId(request.subject.id),
            request.reason or DRY_RUN,
            admission.proof,
            is_preview=is_preview,
        )
        if id_ is None:
            raise RefusedError("too many requests wait for workers", hint=Hint(("job", "list")))
        return await self._waited(id_)

    async def _waited(self, id_: str) -> OperatorRequest:
        until = time.monotonic() + self.within_s
        while time.monotonic() < until:
            request = await asyncio.to_thread(self.container.operator_request_rows.get, id_)
            if request is not None and request.state is OperatorRequestState.REFUSED:
                raise CODES.get(request.code, RefusedError)(request.detail, hint=hint_of(json.loads(request.answer)))
            if request is not None and request.state is not OperatorRequestState.QUEUED:
                return request
            await pause(_EVERY_S)
        raise UnavailableError(
            f"no worker has decided request {id_}; one may still do so within a quarter of an hour",
            hint=Hint(("job", "list"), "shows whether workers run operator-requests"),
        )
