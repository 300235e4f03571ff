"""Answers to refused requests: ``application/problem+json``, one table from errors to statuses.

Source: RFC 9457.
"""

from collections.abc import Mapping
from http import HTTPStatus

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from hermesops.agents.relay.client import AgentBusyError
from hermesops.api.sign_in.tokens import InvalidTokenError
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, UsageError
from hermesops.users.chat.service import (
    AgentSuspendedError,
    ConversationBusyError,
    NoAgentError,
    NoSuchTurnError,
)

MEDIA_TYPE = "application/problem+json"

STATUSES: tuple[tuple[type[HermesError], HTTPStatus, str], ...] = (
    (NoAgentError, HTTPStatus.NOT_FOUND, "no-agent"),
    (NoSuchTurnError, HTTPStatus.NOT_FOUND, "no-such-turn"),
    (AgentSuspendedError, HTTPStatus.CONFLICT, "agent-suspended"),
    (ConversationBusyError, HTTPStatus.CONFLICT, "conversation-busy"),
    (AgentBusyError, HTTPStatus.TOO_MANY_REQUESTS, "agent-busy"),
    (UsageError, HTTPStatus.UNPROCESSABLE_ENTITY, "invalid"),
    (RefusedError, HTTPStatus.CONFLICT, "refused"),
    (UnknownOutcomeError, HTTPStatus.BAD_GATEWAY, "unknown-outcome"),
    (UnavailableError, HTTPStatus.SERVICE_UNAVAILABLE, "unavailable"),
)
"""Status and code of each error of ours; the first class that fits counts."""

_RETRY_S = 5


def problem(
    status: HTTPStatus, code: str, detail: str, request: Request, headers: Mapping[str, str] | None = None
) -> JSONResponse:
    """Build the answer.

    Args:
        code: For programs; stable. ``type`` is its page in the documentation.
        detail: For people; no text of others.
    """
    body = {
        "type": f"/hermes-max/problems/{code}",
        "title": status.phrase,
        "status": status.value,
        "code": code,
        "detail": detail,
        "request_id": request.state.request_id,
    }
    return JSONResponse(body, status.value, dict(headers or {}), MEDIA_TYPE)


def of_ours(request: Request, error: Exception) -> JSONResponse:
    """Answer an error of ours."""
    assert isinstance(error, HermesError)  # noqa: S101 - as registered
    status, code = next(
        ((status, code) for kind, status, code in STATUSES if isinstance(error, kind)),
        (HTTPStatus.INTERNAL_SERVER_ERROR, "internal"),
    )
    if status is HTTPStatus.INTERNAL_SERVER_ERROR:
        return problem(status, code, "the request failed; it was recorded", request)
    may_repeat = status in {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.TOO_MANY_REQUESTS}
    return problem(status, code, error.message, request, {"retry-after": str(_RETRY_S)} if may_repeat else None)


def of_token(request: Request, error: Exception) -> JSONResponse:
    """Answer a token that names no user."""
    headers = {"www-authenticate": 'Bearer error="invalid_token"'}
    assert isinstance(error, InvalidTokenError)  # noqa: S101 - as registered
    return problem(HTTPStatus.UNAUTHORIZED, "invalid-token", str(error), request, headers)


def of_shape(request: Request, error: Exception) -> JSONResponse:
    """Answer a request whose parameters or body have another shape: names of fields, and none of their values."""
    assert isinstance(error, RequestValidationError)  # noqa: S101 - as registered
    fields = sorted({".".join(str(part) for part in item["loc"][1:])[:64] for item in error.errors()})[:10]
    detail = f"malformed: {', '.join(filter(None, fields)) or 'the body'}"
    return problem(HTTPStatus.UNPROCESSABLE_ENTITY, "malformed", detail, request)


def of_http(request: Request, error: Exception) -> JSONResponse:
    """Answer an unknown path, or a method that it does not have."""
    assert isinstance(error, HTTPException)  # noqa: S101 - as registered
    status = HTTPStatus(error.status_code)
    return problem(status, status.name.lower().replace("_", "-"), status.phrase, request, error.headers)
