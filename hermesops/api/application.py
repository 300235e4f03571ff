"""The application: its routes, and the order of what a request meets."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from hermesops.api import problems
from hermesops.api.figures import Counted
from hermesops.api.front import Front
from hermesops.api.parts import ApiParts
from hermesops.api.routes import (
    agent_calls,
    chat,
    chat_socket,
    connections,
    cron,
    files,
    instance,
    me,
    pages,
    plan,
    settings,
    sign_in,
    usage,
    webhooks,
)

VERSION = "1"
PREFIX = "/api/hermes"
ROUTERS = (
    me.router,
    instance.router,
    chat.router,
    chat_socket.router,
    files.router,
    usage.router,
    plan.router,
    settings.router,
    cron.router,
    connections.router,
)
"""Routes of users, below the prefix."""


def application(parts: ApiParts) -> FastAPI:
    """Build the application over these services."""
    app = routed()
    app.state.parts = parts
    uploads = frozenset({f"{PREFIX}/chat/files"})
    app.add_middleware(Counted, counts=parts.counts)
    app.add_middleware(Front, hosts=parts.hosts, uploads=uploads)
    return app


def routed() -> FastAPI:
    """Build the application without services: its routes and their description."""

    @asynccontextmanager
    async def nothing(_app: FastAPI) -> AsyncIterator[None]:
        yield

    app = FastAPI(
        title="hermesops: the users' API",
        version=VERSION,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=nothing,
    )
    for router in ROUTERS:
        app.include_router(router, prefix=PREFIX, responses=problems.RESPONSES)
    for router in (sign_in.router, pages.router, webhooks.router, connections.pages, agent_calls.router):
        app.include_router(router, include_in_schema=False)
    for kind, answer in problems.HANDLERS.items():
        app.add_exception_handler(kind, answer)
    return app


def openapi() -> dict[str, Any]:
    """The description of the API, as OpenAPI 3.1."""
    document = get_openapi(title="hermesops: the users' API", version=VERSION, routes=routed().routes)
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    schemas["Problem"] = problems.Problem.model_json_schema()
    schemas.pop("HTTPValidationError", None)
    schemas.pop("ValidationError", None)
    document["components"]["securitySchemes"] = {
        "token": {"type": "http", "scheme": "bearer", "bearerFormat": "JWT"},
        "session": {"type": "apiKey", "in": "cookie", "name": "__Host-hermes"},
    }
    document["security"] = [{"token": []}, {"session": []}]
    return document
