"""The vendor's error answers.

It must not decide when something is an error; handlers raise a ``Problem`` and this module gives it the vendor's shape.
"""

import sqlite3
from collections.abc import Awaitable, Callable
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import TypeVar

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Match, Route

from hermesops.base.files.disk import is_refusal, refused_write, sqlite_not_written

T = TypeVar("T")

CHECKOUT = "https://checkout.invalid/session"
"""The page where a payment method would be added."""


class Problem(Exception):  # noqa: N818 - an answer of the API, not a failure of ours
    """An error answer.

    Args:
        message: For the caller, without secrets.
        body: Replaces the usual shape, for the one answer (402) that has its own.
    """

    def __init__(self, status: int, message: str, body: dict[str, object] | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.body = body

    def response(self) -> JSONResponse:
        """The answer in the vendor's shape.

        Source: published SDK 2026.3.6: ``{error, message, status}``; 402 has three fields of its own.
        """
        body = self.body or {"error": True, "message": self.message, "status": self.status}
        return JSONResponse(body, status_code=self.status)


def not_found(what: str) -> Problem:
    """A 404 about one object; also for objects of another account."""
    return Problem(404, f"{what} not found")


def found(row: T | None, what: str) -> T:
    """A row that must be there.

    Raises:
        Problem: 404.
    """
    if row is None:
        raise not_found(what)
    return row


def payment_required() -> Problem:
    """The 402 for an account without a payment method."""
    message = "No payment method on file"
    return Problem(402, message, {"requires_checkout": True, "checkout_url": CHECKOUT, "message": message})


unauthorised = partial(Problem, 401, "Missing or invalid API key")
locked = partial(Problem, 409, "Machine is locked: another action is running")

# As the vendor passes them on from the data centre underneath.
disk_too_small = partial(Problem, 422, "invalid input in field 'image': image disk is bigger than server type disk")
sold_out = partial(Problem, 422, "server type is currently not available in this location")

location_disabled = partial(Problem, 422, "server location disabled")
"""Source: the words seen by the vendor's public client, 2026."""


async def answer_problem(_request: Request, problem: Exception) -> Response:
    """Starlette's handler for ``Problem``: answers in the vendor's shape."""
    if not isinstance(problem, Problem):
        raise problem
    return problem.response()


async def answer_http_exception(request: Request, problem: Exception) -> Response:
    """Starlette's own 404 and 405 in the vendor's shape."""
    if not isinstance(problem, HTTPException):
        raise problem
    answer = Problem(problem.status_code, problem.detail).response()
    if problem.status_code == HTTPStatus.METHOD_NOT_ALLOWED:
        # Starlette names the methods of the first fitting route only, but a path has several routes. Fixed paths stand
        # before those that would take the same word for an id, so the first fitting path is the right one.
        routes = [route for route in request.app.routes if isinstance(route, Route)]
        fitting = [route for route in routes if route.matches(request.scope)[0] is not Match.NONE]
        methods = {name for route in fitting if route.path == fitting[0].path for name in route.methods or ()}
        answer.headers["allow"] = ", ".join(sorted(methods))
    return answer


def disk_handlers(file: Path) -> dict[type[Exception], Callable[[Request, Exception], Awaitable[Response]]]:
    """Starlette's handlers for errors of the disk of the world's ``file``: 507 with the reason, and no traceback."""

    async def answer(_request: Request, error: Exception) -> Response:
        refused = sqlite_not_written(file, error)
        if isinstance(error, OSError) and is_refusal(error):
            refused = refused_write(error, [file.parent])
        if refused is None:
            raise error
        return Problem(HTTPStatus.INSUFFICIENT_STORAGE, refused.message).response()

    return dict.fromkeys((OSError, sqlite3.Error), answer)
