"""The application: routes, errors, and what every answer has."""

import secrets
from collections.abc import Awaitable, Callable

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from hermesops.api import problems
from hermesops.api.parts import ApiParts
from hermesops.api.routes import chat, instance
from hermesops.api.sign_in.tokens import InvalidTokenError
from hermesops.errors import HermesError

VERSION = "1"
PREFIX = "/api/hermes"


def application(parts: ApiParts) -> FastAPI:
    """Build the application over these services."""
    app = FastAPI(
        title="hermesops users' API",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=f"{PREFIX}/openapi.json",
    )
    app.state.parts = parts
    for router in (instance.router, chat.router):
        app.include_router(router, prefix=PREFIX)
    app.add_exception_handler(HermesError, problems.of_ours)
    app.add_exception_handler(InvalidTokenError, problems.of_token)
    app.add_exception_handler(RequestValidationError, problems.of_shape)
    app.add_exception_handler(HTTPException, problems.of_http)
    app.middleware("http")(_named)
    return app


async def _named(request: Request, call_next: Callable[[Request], Awaitable[Response]]) -> Response:
    """Give each request an id, which logs, problems and the answer have."""
    request.state.request_id = secrets.token_hex(8)
    response = await call_next(request)
    response.headers["x-request-id"] = request.state.request_id
    response.headers.setdefault("cache-control", "no-store")
    response.headers["x-content-type-options"] = "nosniff"
    return response
