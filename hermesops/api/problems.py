"""Answers to refused requests: ``application/problem+json``, one table from errors to statuses.

Source: RFC 9457.
"""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Any

import structlog
from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException
from starlette.routing import Match

from hermesops.access.sign_in.signed_tokens import InvalidTokenError
from hermesops.agents.relay.client import AgentBusyError, AgentEndedError, NoSuchThingError
from hermesops.api.parts import ForeignRequestError
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.serving.limits import TooManyError
from hermesops.store.user_rows.settings_copies import CopyMissingError
from hermesops.users.agent_jobs.service import JobRefusedError
from hermesops.users.agent_settings.service import ChangedMeanwhileError, SettingsRefusedError
from hermesops.users.billing.door import UnsignedEventError
from hermesops.users.callers.service import NoSuchCallerError, TooManyCallersError, UnknownCallerError
from hermesops.users.chat.files import TooManyFilesError
from hermesops.users.chat.service import (
    AgentNotReadyError,
    AgentSuspendedError,
    ConversationBusyError,
    NoAgentError,
    NoSuchConversationError,
    NoSuchTurnError,
    NotAskedError,
)
from hermesops.users.connections.mcp_messages import MalformedMessageError
from hermesops.users.connections.mcp_proxy import NothingConnectedError, SessionEndedError, UnknownAgentError
from hermesops.users.connections.service import NoSuchServiceError, StaleLinkError, TooManyConnectionsError
from hermesops.users.messaging.inbound.door import UnsignedReportError
from hermesops.users.messaging.inbound.links import NotOfferedError
from hermesops.users.user_requests.refusals import (
    HasPlanError,
    KeyUnverifiedError,
    NoPlanError,
    NotSoldError,
    RequestRefusedError,
)
from hermesops.users.user_requests.service import NoSuchRequestError, TooManyRequestsError

MEDIA_TYPE = "application/problem+json"

STATUSES: tuple[tuple[type[HermesError], HTTPStatus, str, str], ...] = (
    (NoAgentError, HTTPStatus.NOT_FOUND, "no-agent", ""),
    (NoSuchTurnError, HTTPStatus.NOT_FOUND, "no-such-turn", ""),
    (NoSuchConversationError, HTTPStatus.NOT_FOUND, "no-such-conversation", ""),
    (NoSuchThingError, HTTPStatus.NOT_FOUND, "not-found", "your agent has no such thing"),
    (AgentSuspendedError, HTTPStatus.CONFLICT, "agent-suspended", ""),
    (AgentEndedError, HTTPStatus.CONFLICT, "agent-suspended", "your agent does not run now"),
    (ConversationBusyError, HTTPStatus.CONFLICT, "conversation-busy", ""),
    (NotAskedError, HTTPStatus.CONFLICT, "not-waiting", ""),
    (ChangedMeanwhileError, HTTPStatus.PRECONDITION_FAILED, "changed-meanwhile", ""),
    (CopyMissingError, HTTPStatus.SERVICE_UNAVAILABLE, "not-here-yet", ""),
    (SettingsRefusedError, HTTPStatus.CONFLICT, "refused", ""),
    (JobRefusedError, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", ""),
    (NoSuchRequestError, HTTPStatus.NOT_FOUND, "no-such-request", ""),
    (HasPlanError, HTTPStatus.CONFLICT, "has-plan", ""),
    (NoPlanError, HTTPStatus.CONFLICT, "no-plan", ""),
    (NotSoldError, HTTPStatus.CONFLICT, "not-sold", ""),
    (KeyUnverifiedError, HTTPStatus.CONFLICT, "unverified", ""),
    (RequestRefusedError, HTTPStatus.CONFLICT, "refused", ""),
    (TooManyRequestsError, HTTPStatus.CONFLICT, "too-many-open", ""),
    (TooManyFilesError, HTTPStatus.CONFLICT, "too-many-files", ""),
    (UnsignedEventError, HTTPStatus.UNAUTHORIZED, "unsigned", ""),
    (UnsignedReportError, HTTPStatus.UNAUTHORIZED, "unsigned", ""),
    (NotOfferedError, HTTPStatus.CONFLICT, "not-offered", ""),
    (NoSuchServiceError, HTTPStatus.NOT_FOUND, "no-such-service", ""),
    (TooManyConnectionsError, HTTPStatus.CONFLICT, "too-many-connections", ""),
    (StaleLinkError, HTTPStatus.CONFLICT, "stale-link", ""),
    (UnknownAgentError, HTTPStatus.UNAUTHORIZED, "unknown-agent", ""),
    (UnknownCallerError, HTTPStatus.UNAUTHORIZED, "unknown-caller", ""),
    (NoSuchCallerError, HTTPStatus.NOT_FOUND, "no-such-caller", ""),
    (TooManyCallersError, HTTPStatus.CONFLICT, "too-many-callers", ""),
    (NothingConnectedError, HTTPStatus.CONFLICT, "nothing-connected", ""),
    (SessionEndedError, HTTPStatus.NOT_FOUND, "session-ended", ""),
    (MalformedMessageError, HTTPStatus.BAD_REQUEST, "malformed", ""),
    (AgentNotReadyError, HTTPStatus.SERVICE_UNAVAILABLE, "agent-not-ready", ""),
    (AgentBusyError, HTTPStatus.SERVICE_UNAVAILABLE, "agent-busy", "your agent takes no request now; try again"),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid", ""),
    (RefusedError, HTTPStatus.CONFLICT, "refused", "this cannot be done now"),
    (UnknownOutcomeError, HTTPStatus.BAD_GATEWAY, "unknown-outcome", "whether this was done is not known; look first"),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable", "this is not available now; try again"),
)
"""Status, code and words of each error of ours; the first class that fits counts. Without words here, the error's own
are shown: those were written for users. Others name processes, paths and machines, which are for operators."""

_METHODS = ("DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT")
_RETRY_S = 5
_FAILED = "the request failed; it was recorded"

log = structlog.get_logger()


class Problem(BaseModel):
    """Why a request was refused.

    Attributes:
        code: For programs; stable.
        detail: For people.
        request_id: Names the request in the operator's log.
    """

    type: str
    title: str
    status: int
    code: str
    detail: str
    request_id: str


_DOCUMENTED = (400, 401, 403, 404, 409, 412, 413, 421, 422, 429, 500, 501, 502, 503)
RESPONSES: dict[int | str, dict[str, Any]] = {
    status: {
        "description": HTTPStatus(status).phrase,
        "content": {MEDIA_TYPE: {"schema": {"$ref": "#/components/schemas/Problem"}}},
    }
    for status in _DOCUMENTED
}
"""What each route may answer instead, for OpenAPI."""


def body_of(status: HTTPStatus, code: str, detail: str, request_id: str) -> dict[str, object]:
    """The body of a problem. Pure.

    Args:
        code: For programs; stable. ``type`` is made of it.
        detail: For people; no text of others.
    """
    return {
        "type": f"urn:hermesops:problem:{code}",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
        "request_id": request_id,
    }


def problem(
    status: HTTPStatus, code: str, detail: str, request: Request, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Build the answer; arguments as of ``body_of``."""
    body = body_of(status, code, detail, request.state.request_id)
    return JSONResponse(body, status.value, dict(headers or {}), MEDIA_TYPE)


def of_ours(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of ours with a problem document; a bug answers 500 without its message."""
    assert isinstance(error, HermesError)  # noqa: S101 - as registered
    status, code, words = refusal_of(error)
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return of_bug(request, error)
    if words != error.message:
        log.info("request_refused", request_id=request.state.request_id, code=code, why=error.message)
    again = {"retry-after": str(_RETRY_S)} if status is HTTPStatus.SERVICE_UNAVAILABLE else None
    return problem(status, code, words, request, again)


def refusal_of(error: HermesError) -> tuple[HTTPStatus, str, str]:
    """Status, code and words of an error of ours; ``internal`` for one that the table lacks. Pure."""
    for kind, status, code, words in STATUSES:
        if isinstance(error, kind):
            return status, code, words or error.message
    return HTTPStatus.INTERNAL_SERVER_ERROR, "internal", _FAILED


def of_bug(request: Request, error: Exception) -> JSONResponse:
    """Answer an error that nobody foresaw; the log has its traceback, and nothing of the request."""
    log.error("request_failed", request_id=request.state.request_id, exc_info=error)
    return problem(HTTPStatus.INTERNAL_SERVER_ERROR, "internal", _FAILED, request)


def of_token(request: Request, error: Exception) -> JSONResponse:
    """Answer a token or a session that names no user."""
    headers = {"www-authenticate": 'Bearer error="invalid_token"'}
    return problem(HTTPStatus.UNAUTHORIZED, "invalid-token", str(error), request, headers)


def of_foreign(request: Request, error: Exception) -> JSONResponse:
    """Answer a request of another site's page."""
    return problem(HTTPStatus.FORBIDDEN, "foreign-request", str(error), request)


def of_limit(request: Request, error: Exception) -> JSONResponse:
    """Answer a user who asks too often."""
    assert isinstance(error, TooManyError)  # noqa: S101 - as registered
    again = {"retry-after": str(error.retry_after_s)}
    return problem(HTTPStatus.TOO_MANY_REQUESTS, "too-many-requests", str(error), request, again)


def of_shape(request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose parameters or body have another shape: names of fields, and none of their values."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered
    fields = sorted({".".join(str(part) for part in item["loc"][1:])[:64] for item in error.errors()})[:10]
    detail = f"malformed: {', '.join(filter(None, fields)) or 'the body'}"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "malformed", detail, request)


def of_http(request: Request, error: Exception) -> JSONResponse:
    """Answer an unknown path, a method that it does not have, or a body that cannot be read."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    status = HTTPStatus(error.status_code)
    headers = {"allow": _methods_of(request)} if status is HTTPStatus.METHOD_NOT_ALLOWED else error.headers
    return problem(status, status.name.lower().replace("_", "-"), status.phrase, request, headers)


def _methods_of(request: Request) -> str:
    """All methods of a request's path: each route knows its own alone.

    Source: RFC 9110, section 15.5.6.
    """
    routes, scope = request.app.routes, request.scope
    return ", ".join(
        method
        for method in _METHODS
        if any(route.matches({**scope, "method": method})[0] is Match.FULL for route in routes)
    )


HANDLERS = {
    HermesError: of_ours,
    InvalidTokenError: of_token,
    ForeignRequestError: of_foreign,
    TooManyError: of_limit,
    RequestValidationError: of_shape,
    HTTPException: of_http,
    Exception: of_bug,
}
"""Answers, by class of the error."""
