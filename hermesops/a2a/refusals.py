"""Refusals in the protocol's errors: one table from our errors, and words that were written for users alone.

Source: A2A specification 1.0, sections 3.3.2, 5.4 and 9.5. It has no error for a server that is busy or away, and
JSON-RPC leaves -32000 to -32099 to servers.
"""

import functools
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

import structlog
from a2a.server.jsonrpc_models import JSONRPCError
from a2a.server.request_handlers.response_helpers import EXCEPTION_MAP
from a2a.utils.errors import (
    A2A_ERROR_MAPPING,
    A2A_ERROR_REASONS,
    JSON_RPC_ERROR_CODE_MAP,
    A2AError,
    ContentTypeNotSupportedError,
    ErrorMapping,
    InternalError,
    InvalidParamsError,
    TaskNotCancelableError,
    TaskNotFoundError,
    UnsupportedOperationError,
)

from hermesops.agents.relay.client import AgentBusyError, AgentEndedError
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.serving.limits import TooManyError
from hermesops.users.callers.pushes import PushRefusedError
from hermesops.users.callers.tasks import NoSuchTaskError, NotWaitingError, TaskEndedError
from hermesops.users.chat.files import TooManyFilesError, UnknownKindError
from hermesops.users.chat.service import AgentNotReadyError, AgentSuspendedError, ConversationBusyError, NotAskedError

P = ParamSpec("P")
T = TypeVar("T")

_FAILED = "internal error; the failure was logged"

log = structlog.get_logger()


class AgentAwayError(A2AError):
    """The agent takes no task now; the same request may succeed later."""

    message = "the agent is not available now; try again later"


class CallerTooFastError(A2AError):
    """The caller asks too often, or the agent works on another task."""

    message = "too many requests; try again later"


_OURS: tuple[tuple[type[A2AError], int, ErrorMapping], ...] = (
    (AgentAwayError, -32050, ErrorMapping(503, "UNAVAILABLE", "AGENT_UNAVAILABLE")),
    (CallerTooFastError, -32051, ErrorMapping(429, "RESOURCE_EXHAUSTED", "TOO_MANY_REQUESTS")),
)
for _kind, _code, _mapping in _OURS:  # the SDK's tables are open: it answers what they lack as an internal error
    JSON_RPC_ERROR_CODE_MAP[_kind] = _code
    A2A_ERROR_MAPPING[_kind] = _mapping
    A2A_ERROR_REASONS[_kind] = _mapping.reason
    EXCEPTION_MAP[_kind] = JSONRPCError

_ANSWERS: tuple[tuple[type[Exception], type[A2AError], str], ...] = (
    (NoSuchTaskError, TaskNotFoundError, "Task not found"),
    (TaskEndedError, UnsupportedOperationError, ""),
    (NotWaitingError, UnsupportedOperationError, ""),
    (NotAskedError, UnsupportedOperationError, ""),
    (PushRefusedError, InvalidParamsError, ""),
    (TooManyError, CallerTooFastError, ""),
    (ConversationBusyError, CallerTooFastError, ""),
    (TooManyFilesError, CallerTooFastError, "too many files are waiting for the agent; try again later"),
    (AgentBusyError, AgentAwayError, "the agent accepts no task now; try again later"),
    (AgentNotReadyError, AgentAwayError, "the agent accepts no task now; try again later"),
    (AgentSuspendedError, UnsupportedOperationError, "the agent does not run now"),
    (AgentEndedError, UnsupportedOperationError, "the agent does not run now"),
    (UnknownKindError, ContentTypeNotSupportedError, ""),
    (UsageError, InvalidParamsError, ""),
    (UnknownOutcomeError, AgentAwayError, "unknown outcome: get the task to see whether the request was carried out"),
    (RefusedError, UnsupportedOperationError, "the request cannot be carried out now"),
    (UnavailableError, AgentAwayError, "temporarily unavailable; try again later"),
)
"""The first class that fits counts. Without words here, the error's own are shown: those were written for users."""


def refusal_of(error: Exception) -> A2AError:
    """The protocol's error for one of ours; an unforeseen one is logged, and shown without its words."""
    if isinstance(error, A2AError):
        return error
    for kind, refusal, words in _ANSWERS:
        if isinstance(error, kind):
            own = error.message if isinstance(error, HermesError) else str(error)
            return refusal(words or own)
    log.error("call_failed", exc_info=error)
    return InternalError(_FAILED)


def answering(method: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """Let a method raise the protocol's errors alone."""

    @functools.wraps(method)
    async def answered(*args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await method(*args, **kwargs)
        except Exception as error:
            raise refusal_of(error) from error

    return answered


def streaming(method: Callable[P, AsyncGenerator[T]]) -> Callable[P, AsyncGenerator[T]]:
    """``answering``, for a method that yields."""

    @functools.wraps(method)
    async def streamed(*args: P.args, **kwargs: P.kwargs) -> Any:  # noqa: ANN401 - a generator of T
        events = method(*args, **kwargs)
        try:
            async for event in events:
                yield event
        except Exception as error:
            raise refusal_of(error) from error
        finally:
            await events.aclose()

    return streamed


def not_cancelable(error: TaskEndedError) -> TaskNotCancelableError:
    """The refusal to cancel a task that has ended."""
    return TaskNotCancelableError(error.message)
