"""The local world's model router: checks an instance's token, then answers from a script or a real model.

It logs which instance asked for which model and when. It must not store or log what is said.
"""

import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from uuid import uuid4

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.localcloud.model_router import scripted_model
from hermesops.localcloud.model_router.scripted_model import answer_to
from hermesops.localcloud.model_router.token_floors import Floors
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ModelRequestRow, now
from hermesops.model.route import ROUTES, read_token, refusal_of
from hermesops.waiting import pause

_KEPT = 10_000


_UPSTREAM_TIMEOUT = httpx.Timeout(connect=10, read=600, write=60, pool=None)
_NAMES = frozenset(route.name for route in ROUTES)
_BEARER = "Bearer "
_PASSED_BACK = ("content-type", "retry-after")


class ModelLog:
    """The log of requests, in the world's store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._written = 0

    def note(self, instance: str, model: str, status: int) -> None:
        """Write down one request."""
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
    """Serves ``/v1/chat/completions`` and ``/v1/models`` to instances.

    Args:
        secret: Signs instances' tokens; see ``hermesops.model.route``.
        upstream: Who answers; ``None`` has the script do it.
        floors: Which tokens are revoked; ``None`` for none, where no registry is beside the router.
        fault: Whether a fault of the model strikes now: the status that it answers, 0 for none.
    """

    def __init__(
        self,
        secret: bytes,
        model_log: ModelLog,
        upstream: Upstream | None = None,
        floors: Floors | None = None,
        fault: Callable[[], int] = lambda: 0,
    ) -> None:
        self._secret = secret
        self._floors = floors
        self._fault = fault
        self._log = model_log
        self._upstream = upstream
        self._http = httpx.AsyncClient(timeout=_UPSTREAM_TIMEOUT) if upstream else None

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
        models = [
            {"id": route.name, "object": "model", "owned_by": "hermesops", "context_length": route.context_tokens}
            for route in ROUTES
        ]
        return JSONResponse({"object": "list", "data": models})

    async def _complete(self, request: Request) -> Response:
        instance = await self._caller(request)
        if isinstance(instance, Response):
            return instance
        body = await request.body()
        try:
            asked = json.loads(body)
            model, messages = str(asked["model"]), list(asked["messages"])
        except (ValueError, KeyError, TypeError):
            return JSONResponse(_error("model and messages are required", code="bad_request"), 400)
        if model not in _NAMES:
            self._log.note(instance, model[:100], 400)
            # 400, not 404: what the platform's router answers, and what operators know as the symptom.
            message = f"Invalid model name passed in model={model[:100]}. Call `/v1/models` to view available models"
            return JSONResponse(_error(message, code="model_not_found", param="model"), 400)
        if status := self._fault():
            self._log.note(instance, model, status)
            return JSONResponse(_error("the model does not answer now", code=str(status)), status)
        if self._upstream and self._http:
            return await self._ask_upstream(self._http, self._upstream, instance, model, body)
        self._log.note(instance, model, 200)
        return await _scripted(asked, model, messages, len(body))

    async def _caller(self, request: Request) -> str | Response:
        """The instance whose good token the request carries, or the refusal."""
        given = request.headers.get("authorization", "")
        token = read_token(self._secret, given.removeprefix(_BEARER)) if given.startswith(_BEARER) else None
        if token is None:
            return _refused("no token of this router")
        if self._floors and not self._floors.are_known:
            # Not 401: the token may well be good, and the agent asks again.
            return JSONResponse(_error("revoked tokens are not known now", code="503"), 503)
        floor = await self._floors.of_newest(token.instance_id) if self._floors else token.generation
        why = refusal_of(token, floor=floor, now=time.time())
        return _refused(why) if why else token.instance_id

    async def _ask_upstream(
        self, http: httpx.AsyncClient, upstream: Upstream, instance: str, model: str, body: bytes
    ) -> Response:
        request = http.build_request(
            "POST",
            f"{upstream.base_url.rstrip('/')}/chat/completions",
            content=body,
            headers={"authorization": f"Bearer {upstream.key}", "content-type": "application/json"},
        )
        try:
            response = await http.send(request, stream=True)
        except httpx.TransportError as error:
            self._log.note(instance, model, 502)
            message = f"the model's endpoint does not answer ({type(error).__name__})"
            return JSONResponse(_error(message, code="upstream_unavailable"), 502)
        self._log.note(instance, model, response.status_code)
        headers = {name: response.headers[name] for name in _PASSED_BACK if name in response.headers}
        return StreamingResponse(_body_of(response), response.status_code, headers)


async def _body_of(response: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in response.aiter_bytes():
            yield piece
    finally:
        await response.aclose()


async def _scripted(
    asked: Mapping[str, object], model: str, messages: list[Mapping[str, object]], length: int
) -> Response:
    answer = answer_to(messages, _tools_of(asked))
    if answer.after_s:
        await pause(answer.after_s)
    request_id, created = f"chatcmpl-{uuid4().hex}", int(time.time())
    if asked.get("stream") is True:
        events = scripted_model.stream(request_id, created, model, answer.content, length)
        return StreamingResponse(events, media_type="text/event-stream")
    return JSONResponse(scripted_model.whole(request_id, created, model, answer.content, length))


def _tools_of(asked: Mapping[str, object]) -> frozenset[str]:
    tools = asked.get("tools")
    functions = [tool.get("function") for tool in tools if isinstance(tool, dict)] if isinstance(tools, list) else []
    return frozenset(str(function.get("name")) for function in functions if isinstance(function, dict))


def _refused(why: str) -> Response:
    return JSONResponse(_error(f"Invalid proxy server token passed: {why}", code="401"), 401)


def _error(message: str, *, code: str, param: str | None = None) -> dict[str, object]:
    """An error in OpenAI's shape."""
    return {"error": {"message": message, "type": "invalid_request_error", "param": param, "code": code}}
