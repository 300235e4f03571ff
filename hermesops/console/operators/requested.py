"""Changes of the served console: each is a row with the operator's proof, which workers preview or carry out."""

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from hermesops.agents.operator_requests.actions import ACTIONS
from hermesops.agents.operator_requests.carrier import CODES
from hermesops.agents.operator_requests.previews import preview_of
from hermesops.base.waiting import pause
from hermesops.console.changes import CHANGES, Change
from hermesops.console.operators.gate import current
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.access.operator_request import OperatorRequest, OperatorRequestState, hint_of

if TYPE_CHECKING:
    from hermesops.agents.instances.preview.change_preview import ChangePreview
    from hermesops.app.console_container import ConsoleContainer
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.operation import Operation

_WITHIN_S = 30.0
"""Seconds that a page waits for a worker's decision."""

_EVERY_S = 0.3


@dataclass(frozen=True)
class RequestedChanges:
    """Asks workers to preview and carry out changes, as the operator of the present request."""

    container: "ConsoleContainer"
    within_s: float = _WITHIN_S

    async def user_of(self, instance: "Instance") -> str:
        """The name by which requests find this very instance: its user, or its id where the user has a newer one."""
        same = await asyncio.to_thread(self.container.instances.find, instance.title)
        return instance.title if same.id == instance.id else instance.id

    async def preview(self, change: Change, instance: "Instance") -> "ChangePreview":
        """The preview of a change, which a worker makes.

        Raises:
            HermesError: The change is refused now.
            UnavailableError: No worker decides.
        """
        request = await self._decided(change, instance, "preview", is_preview=True)
        return preview_of(request.answer)

    async def open(self, change: Change, instance: "Instance", reason: str) -> "Operation":
        """Have a worker open the operation of a change.

        Raises:
            HermesError: The change is refused; nothing was changed.
            UnavailableError: No worker decides; one may do so within a quarter of an hour.
        """
        request = await self._decided(change, instance, reason, is_preview=False)
        if request.operation_id is None:
            raise RefusedError("this request opened no operation")
        return (await asyncio.to_thread(self.container.operation_directory.history, request.operation_id)).operation

    async def close(self) -> "list[Operation]":
        """Nothing runs in this process."""
        return []

    async def _decided(self, change: Change, instance: "Instance", reason: str, *, is_preview: bool) -> OperatorRequest:
        """Add a request of the present operator, and wait for its decision."""
        name, admission, rows = _name_of(change), current(), self.container.operator_request_rows
        action = ACTIONS.get(name)
        if action is None or admission.operator is None:
            hint = Hint(change.command(instance.title))
            raise RefusedError("the served console does not offer this change", hint=hint)
        if admission.role < action.role:
            raise RefusedError(f"{change.title} needs the role {action.role.word}")
        id_ = await asyncio.to_thread(
            rows.add, admission.operator.name, name, instance.id, reason, admission.proof, is_preview=is_preview
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


def _name_of(change: Change) -> str:
    return next((name for name, each in CHANGES.items() if each is change), "")
