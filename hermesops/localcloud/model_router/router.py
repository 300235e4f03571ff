"""The local world's model router: checks an instance's token, then answers from a script or a real model.

It logs which instance asked for which model and when. It must not store or log what is said.
"""

import hmac
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.base.network.http import client
from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.localcloud.model_router import scripted_model
from hermesops.localcloud.model_router.scripted_model import Answer, answer_to, messages_of, tools_of
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ModelRequestRow, now
from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.accounts.books import Books
from hermesops.programs.model_router.requests.admission import Admission, Refused, bad_request, parsed, unknown_model
from hermesops.programs.model_router.requests.gate import models

_KEPT = 10_000


_UPSTREAM_TIMEOUT = httpx.Timeout(connect=10, read=600, write=60, pool=None)
_ROUTES = {route.name: route for route in ROUTES}
_PLATFORM = InstanceId("")
"""Whom no budget bounds and no usage is written down for: the platform's router does both."""

_PASSED_BACK = ("content-type", "retry-after")


class ModelLog:
    """The log of requests, in the world's store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written = 0

    def note(self, instance: str, model: str, status: int) -> None:
        """Store instance, model and status of a request."""
        self._store.add(ModelRequestRow(None, instance, model, now(), status))
        self._written += 1
        if self._written % 1000 == 0:
            self._store.keep_newest(ModelRequestRow, _KEPT)

    def requests(self, instance: str = "") -> list[dict[str, object]]:
        """The requests of one instance, or of all, oldest first."""
        rows = self._store.find(ModelRequestRow, **({"instance": instance} if instance else {}))
        return [{"instance": row.instance, "model": row.model, "at": row.at, "status": row.status} for row in rows]


@dataclass(frozen=True)
class Upstream:
    """A real OpenAI-compatible endpoint.

    Attributes:
        base_url: With ``/v1``.
        key: Its bearer; stays here, no machine ever sees it.
    """

    base_url: str
    key: str = field(repr=False)


class Router:
    """Serves ``/v1/chat/completions`` and ``/v1/models`` to machines.

    Args:
        secret: Signs instances' tokens; see ``hermesops.model.billing.route``.
        upstream: Who answers; ``None`` has the script do it.
        books: What the registry says, and what it is told; ``None`` where no registry is beside the router.
        fault: Whether a fault of the model strikes now: the status that it answers, 0 for none.
        provider_key: With it the platform's own router asks, as it would ask a model's provider; empty for nobody.
    """

    def __init__(
        self,
        secret: bytes,
        model_log: ModelLog,
        upstream: Upstream | None = None,
        books: Books | None = None,
        fault: Callable[[], int] = lambda: 0,
        provider_key: str = "",
    ) -> None:
        self._provider_key = provider_key
        self._admission = Admission([secret], books.accounts if books else None)
        self._books = books
        self._fault = fault
        self._log = model_log
        self._upstream = upstream
        self._http = client(timeout=_UPSTREAM_TIMEOUT) if upstream else None

    def app(self) -> Starlette:
        """The application to put on the machines' side."""
        return Starlette(
            routes=[
                Route("/v1/chat/completions", self._complete, methods=["POST"]),
                Route("/v1/models", self._models, methods=["GET"]),
                Route("/health", self._health, methods=["GET"]),
            ]
        )

    async def close(self) -> None:
        """Close the connections to the real endpoint."""
        if self._http:
            await self._http.aclose()

    async def _health(self, _: Request) -> Response:
        return JSONResponse({"status": "ok"})

    async def _models(self, request: Request) -> Response:
        caller = await self._caller(request)
        if isinstance(caller, Response):
            return caller
        return JSONResponse(models(ROUTES))

    async def _complete(self, request: Request) -> Response:
        instance = await self._caller(request)
        if isinstance(instance, Response):
            return instance
        body = await request.body()
        try:
            result = parsed(json.loads(body))
        except ValueError:
            result = bad_request()
        if isinstance(result, Refused):
            return _refusal(result)
        model, completion = result
        if model not in _ROUTES:
            self._use(instance, model[:100], 400)
            return _refusal(unknown_model(model))
        if refused := self._admission.over_budget(instance):
            self._use(instance, model, refused.status)
            return _refusal(refused)
        if status := self._fault():
            self._use(instance, model, status)
            return JSONResponse(_error("the model does not answer now", code=str(status)), status)
        if self._upstream and self._http:
            return await self._ask_upstream(self._http, self._upstream, instance, model, body)
        answer = answer_to(messages_of(completion), tools_of(completion))
        self._use(instance, model, 200, scripted_model.usage(answer.content, len(body)))
        return await _scripted(completion, model, answer, len(body))

    async def _caller(self, request: Request) -> InstanceId | Response:
        """The instance of a request with a valid token, ``_PLATFORM`` for the platform's router, or the refusal."""
        authorization = request.headers.get("authorization", "")
        if self._provider_key and hmac.compare_digest(authorization.encode(), f"Bearer {self._provider_key}".encode()):
            return _PLATFORM
        address = request.client.host if request.client else ""
        caller = await self._admission.caller(authorization, address)
        return _refusal(caller) if isinstance(caller, Refused) else caller

    def _use(self, instance: InstanceId, model: str, outcome: int, usage: Mapping[str, int] | None = None) -> None:
        self._log.note(instance, model, outcome)
        route = _ROUTES.get(model)
        if not self._books or instance == _PLATFORM:
            return
        read, written = (usage.get("prompt_tokens", 0), usage.get("completion_tokens", 0)) if usage else (0, 0)
        self._books.use(
            Usage(
                instance,
                datetime.now(UTC).date(),
                route.name if route else "",
                route.provider if route else "",
                str(int(outcome)),
                1,
                read,
                written,
                route.micros(read, written) if route else 0,
            )
        )

    async def _ask_upstream(
        self, http: httpx.AsyncClient, upstream: Upstream, instance: InstanceId, model: str, body: bytes
    ) -> Response:
        request = http.build_request(
            "POST",
            f"{upstream.base_url.rstrip('/')}/chat/completions",
            content=body,
            headers={"authorization": f"Bearer {upstream.key}", "content-type": "application/json"},
        )
        try:
            response = await http.send(request, stream=True)
        except (httpx.TransportError, HermesError) as error:
            self._use(instance, model, 502)
            message = f"the model's endpoint does not answer ({type(error).__name__})"
            return JSONResponse(_error(message, code="upstream_unavailable"), 502)
        self._use(instance, model, response.status_code)
        headers = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        return StreamingResponse(_body_of(response), response.status_code, headers)


async def _body_of(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    finally:
        await response.aclose()


async def _scripted(completion: Mapping[str, object], model: str, answer: Answer, length: int) -> Response:
    if answer.after_s:
        await pause(answer.after_s)
    request_id, created = f"chatcmpl-{uuid4().hex}", int(time.time())
    if completion.get("stream") is True:
        events = scripted_model.stream(request_id, created, model, answer.content, length)
        return StreamingResponse(events, media_type="text/event-stream")
    return JSONResponse(scripted_model.whole(request_id, created, model, answer.content, length))


def _refusal(refused: Refused) -> Response:
    headers = {"retry-after": str(refused.retry_after_s)} if refused.retry_after_s else None
    return JSONResponse(refused.body(), refused.status, headers)


def _error(message: str, *, code: str, param: str | None = None) -> dict[str, object]:
    """An error in the shape of OpenAI's API."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
