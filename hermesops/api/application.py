"""The application: its routes, and the order of what a request meets."""

from collections.abc import AsyncIterator, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

from fastapi import APIRouter, FastAPI
from fastapi.openapi.utils import get_openapi

from hermesops.a2a.application import PREFIX as CALLED
from hermesops.a2a.bodies import LARGEST as LARGEST_CALL
from hermesops.api import problems
from hermesops.api.figures import Counted
from hermesops.api.front import LARGEST_UPLOAD, Front
from hermesops.api.parts import ApiParts, ConnectionParts
from hermesops.api.routes import (
    agent_calls,
    callers,
    chat,
    chat_socket,
    connections,
    cron,
    files,
    instance,
    me,
    messengers,
    pages,
    plan,
    settings,
    sign_in,
    usage,
    webhooks,
)
from hermesops.users.messaging.messengers.whatsapp import read as whatsapp

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
    messengers.router,
    callers.router,
)
"""Routes of users, below the prefix."""


_BESIDE = (sign_in.router, pages.router, webhooks.router, connections.pages, agent_calls.router)
"""Routes of browsers, vendors and agents, which the description leaves out."""


def application(parts: ApiParts) -> FastAPI:
    """Build the application over these services."""
    app = routed()
    if parts.a2a is not None:
        app.mount(CALLED, parts.a2a)
    app.add_middleware(Counted, counts=parts.counts)
    larger = {
        f"{PREFIX}/chat/files": LARGEST_UPLOAD,
        f"{CALLED}/": LARGEST_CALL,
        whatsapp.WEBHOOK_PATH: whatsapp.LARGEST,
    }
    return _behind_front(app, parts, larger)


def connections_application(parts: ConnectionParts) -> FastAPI:
    """Build the application that has connections alone: users' routes of them, and agents' calls."""
    app = _routed((connections.router,), (connections.pages, agent_calls.router))
    return _behind_front(app, parts, {})


def routed() -> FastAPI:
    """Build the application without services: its routes and their description."""
    return _routed(ROUTERS, _BESIDE)


def _behind_front(app: FastAPI, parts: ConnectionParts, larger: Mapping[str, int]) -> FastAPI:
    app.state.parts = parts
    app.add_middleware(Front, hosts=parts.hosts, larger=larger)
    return app


def _routed(of_users: Iterable[APIRouter], beside: Iterable[APIRouter]) -> FastAPI:
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
    for router in of_users:
        app.include_router(router, prefix=PREFIX, responses=problems.RESPONSES)
    for router in beside:
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
