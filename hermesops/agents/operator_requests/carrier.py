"""Carries out operators' requests: verifies the operator, begins the action as the command does, records it.

The row says who asks; only the ID token in it proves that, to this process, by the issuer's own keys. Each look begins
from the rows, so that it may be killed anywhere: the reason of an action names its request.
"""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

import structlog

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.agents.operator_requests.actions import BegunAction, FindAction, RequestedAction
from hermesops.base.fan_out import Limits, as_they_come
from hermesops.base.narration import counted
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.model.access.console_operator import RECENT_S, ConsoleOperator
from hermesops.model.access.operator_request import (
    OperatorOutcome,
    OperatorRequest,
    OperatorRequestState,
    parts_of,
    requests_lease,
)
from hermesops.model.operation import LeaseHeldError
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.log import acting_via

FACE = "console"
"""The face, as audit entries of its changes name it."""

PROOF_S = 900.0
"""Seconds from the issue of an ID token to the last decision by it; the console renews its tokens in five minutes."""

LONGEST_REASON = 500
"""Characters."""

_PREVIEW_S = 70.0
"""Seconds for a preview, a little less than its page waits: that of a rollback asks silent machines for a minute."""

_BEGIN_S = 110.0
"""Seconds for the begin of an action."""

_AT_ONCE = Limits(at_once=8, slow_after_s=5.0, within_s=120.0, begun_within_s=600.0)

CODES: dict[str, type[HermesError]] = {
    "usage": UsageError,
    "refused": RefusedError,
    "unavailable": UnavailableError,
    "unknown": UnknownOutcomeError,
}
"""Classes of refusals, as rows name them."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class OperatorRequestCarrier:
    """Carries out operators' requests.

    Attributes:
        operator_of: Verifies an ID token, and that it is fresh; raises as ``OperatorTokens.operator_of``. ``None``
            where no console is served.
        host: Name of the served console, for audit entries.
        find_action: Finds the action of a request.
        hold_lease: Holds the lease of a subject.
        clock: Seconds since 1970.
    """

    registry: Registry
    operator_of: Callable[[str], Awaitable[ConsoleOperator]] | None
    host: str
    find_action: FindAction
    hold_lease: Callable[[str], AbstractAsyncContextManager[object]] = field(repr=False)
    clock: Callable[[], float] = time.time

    def due(self) -> list[str]:
        """Names of the pending work: requests, and old rows."""
        old = self.registry.operator_requests.count_old()
        requests = [f"{request.action} for {request.operator}" for request in self.registry.operator_requests.due()]
        return [*requests, *([counted(old, "old request")] if old else [])]

    async def run(self) -> str:
        """Decide every request, those that come meanwhile as well; a summary in a line."""
        count = await as_they_come(self._due, self._carry, _AT_ONCE)
        self.registry.operator_requests.forget()
        return f"{counted(count, 'request')} decided"

    def _due(self) -> list[str]:
        """Ids of requests that wait, changes before previews: a change is what somebody waited to see previewed."""
        requests = self.registry.operator_requests.due()
        return [request.id for request in sorted(requests, key=lambda request: request.is_preview)]

    async def _carry(self, id_: str) -> None:
        try:
            async with self.hold_lease(requests_lease(id_)):
                request = self.registry.operator_requests.get(id_)
                if request is not None and request.state is OperatorRequestState.QUEUED:
                    self._record(request, await self._decided(request))
        except LeaseHeldError:
            _log.info("operator_request_is_taken", request=id_)  # another process carries it out

    def _record(self, request: OperatorRequest, outcome: OperatorOutcome) -> None:
        self.registry.operator_requests.decide(request, outcome)

    async def _decided(self, request: OperatorRequest) -> OperatorOutcome:
        """The outcome of a request: its preview, the page of what has begun, or its refusal."""
        within_s = _PREVIEW_S if request.is_preview else _BEGIN_S
        try:
            async with asyncio.timeout(within_s) as limit:
                return await self._outcome(request)
        except HermesError as error:
            return refusal_of(error)
        except TimeoutError:
            if not limit.expired():
                raise
            return refusal_of(_not_ended(request, within_s))

    async def _outcome(self, request: OperatorRequest) -> OperatorOutcome:
        action, reason = self._action(request), f"{request.reason} (console request {request.id})"
        try:
            operator = await self._admitted(request, action)
        except RefusedError:
            # A worker that died after the begin proved the operator then; the proof may have ended since.
            if not request.is_preview and (begun := await action.find_begun(reason)):
                return _opened(begun)
            raise
        with acting_via(operator.actor(self.host), FACE):
            if request.is_preview:
                return OperatorOutcome(OperatorRequestState.PREVIEWED, answer=await action.preview())
            return _opened(await action.begin(operator, reason))

    def _action(self, request: OperatorRequest) -> RequestedAction:
        """The action of a request.

        Raises:
            UsageError: There is no reason, or one that no page sends.
            RefusedError: The served console does not offer it.
        """
        action = self.find_action(request)
        if action is None:
            raise RefusedError(f"the served console has no change {request.action!r}")
        if not request.reason.strip() or len(request.reason) > LONGEST_REASON or not request.reason.isprintable():
            raise UsageError(f"a reason has at most {LONGEST_REASON} characters, all of them visible", field="reason")
        return action

    async def _admitted(self, request: OperatorRequest, action: RequestedAction) -> ConsoleOperator:
        """The operator who proved to have the role for the action.

        Raises:
            RefusedError: Nothing is proved, or the role is too low.
            UnavailableError: The issuer's keys cannot be had.
        """
        if self.operator_of is None:
            raise RefusedError("no console is served here")
        try:
            operator = await self.operator_of(request.proof)
        except InvalidTokenError as error:
            raise RefusedError(f"the operator is not proved: {error}") from error
        if operator.role < action.role:
            raise RefusedError(f"{request.action} needs the role {action.role.word}, not {operator.role.word}")
        must_be_recent = action.needs_recent_sign_in and not request.is_preview
        if must_be_recent and not operator.has_signed_in_lately(self.clock()):
            raise RefusedError(f"{request.action} needs a sign-in of the last {RECENT_S / 60:.0f} minutes")
        return operator


def _opened(begun: BegunAction) -> OperatorOutcome:
    return OperatorOutcome(OperatorRequestState.OPENED, answer=begun.page, operation_id=begun.operation_id)


def _not_ended(request: OperatorRequest, within_s: float) -> HermesError:
    if request.is_preview:
        return UnavailableError(f"the preview of {request.action} takes longer than {within_s:g} s")
    hint = Hint(("operation", "list"), "shows whether it has begun")
    return UnknownOutcomeError(f"{request.action} had not begun after {within_s:g} s", hint=hint)


def refusal_of(error: HermesError) -> OperatorOutcome:
    """The outcome of a request that was refused, or whose action did not begin."""
    code = next((code for code, kind in CODES.items() if isinstance(error, kind)), "refused")
    answer = json.dumps(parts_of(error.hint))
    return OperatorOutcome(OperatorRequestState.REFUSED, error.message, answer, code)
