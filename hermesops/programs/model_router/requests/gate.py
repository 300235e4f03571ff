"""ASGI gate before LiteLLM. Exposes only ``/v1/chat/completions``, authenticates each request and drops unknown fields.

Checks in order: path, token, concurrent requests, body, budget. Only body fields that ``completion`` knows are
forwarded: LiteLLM accepts fields that name an endpoint, a key, a callback or a prepared answer. The highest cost is
reserved before forwarding, so concurrent requests cannot spend more than the budget. An error answer passes on only its
status and, if the request was at fault, its message: a provider's own text may contain a part of the platform's key.
Contents of requests and answers are neither kept nor logged.
"""

import asyncio
import json
import re
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Mapping, MutableMapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http import HTTPStatus
from typing import Any

from hermesops.model.billing.model_usage import Usage
from hermesops.model.billing.route import ROUTES, ModelRoute
from hermesops.model.ids import InstanceId
from hermesops.programs.model_router.metrics import Metrics
from hermesops.programs.model_router.requests.admission import Admission, Refused, bad_request, parsed, unknown_model
from hermesops.programs.model_router.requests.completion import Completion, read_completion
from hermesops.programs.model_router.requests.prices import highest_prices

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

CALLER = "hermesops_caller"
"""Where the scope's state names the instance that was let in; LiteLLM's hook believes nothing else."""

RESERVATION = "hermesops_reservation"
"""Where it names the reservation that ends once the answer's cost is charged."""

_PASSED_BACK = (b"content-type", b"retry-after", b"cache-control")
_MESSAGE_CHARS = 2_000
_ERROR_BYTES = 1 << 20
_STREAM_ERROR = b'data: {"error"'
_RESTING = "No deployments available"
"""What LiteLLM says, with 429, of a route whose provider failed several times. Source: its ``types/router.py``."""

_KEY = re.compile(r"(?:sk|AIza|hm2)[-_.A-Za-z0-9*]{6,}")


@dataclass(frozen=True)
class Limits:
    """Limits of one request and of one instance.

    Attributes:
        body_s: Seconds within which a body has to arrive.
        answer_s: Seconds after which an answer is cut off, even if it still arrives.
        at_once: Concurrent requests of one instance.
        all_at_once: Concurrent requests of all instances.
        output_tokens: Limit of an answer in tokens, by plan.
    """

    body_bytes: int = 16 << 20
    body_s: float = 30.0
    answer_s: float = 900.0
    at_once: int = 8
    all_at_once: int = 1_000
    output_tokens: Mapping[str, int] = field(default_factory=lambda: {"light": 8_192, "heavy": 16_384})


class Gate:
    """The ASGI application of the router.

    Args:
        app: LiteLLM's ASGI application.
        keys: Providers' keys; they are removed from answers.
        use: Called with the usage of each request that the router itself answers.
        ready: Whether the router can serve.
    """

    def __init__(
        self,
        app: App,
        admission: Admission,
        metrics: Metrics,
        *,
        routes: Sequence[ModelRoute] = ROUTES,
        limits: Limits = Limits(),
        keys: Sequence[str] = (),
        use: Callable[[Usage], None] = lambda _: None,
        ready: Callable[[], bool] = lambda: True,
    ) -> None:
        self._app = app
        self._admission = admission
        self._metrics = metrics
        self._routes = {route.name: route for route in routes}
        self._prices = highest_prices(routes)
        self._limits = limits
        self._keys = tuple(key.encode() for key in keys if key)
        self._use = use
        self._ready = ready
        self._open: Counter[InstanceId] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; LiteLLM's start and end pass through."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return
        where = (scope["method"], scope["path"])
        if where == ("GET", "/health"):
            is_ready = self._ready()
            status = HTTPStatus.OK if is_ready else HTTPStatus.SERVICE_UNAVAILABLE
            await _answer(send, status, {"status": "ok" if is_ready else "accounts are not known"})
            return
        if where not in {("GET", "/v1/models"), ("POST", "/v1/chat/completions")}:
            await self._refuse(send, Refused(HTTPStatus.NOT_FOUND, "404", "not a path of this router"))
            return
        headers = dict(scope["headers"])
        authorization = headers.get(b"authorization", b"").decode("latin-1")
        caller = await self._admission.caller(authorization, _address(scope, headers))
        if isinstance(caller, Refused):
            await self._refuse(send, caller)
        elif where[0] == "GET":
            await _answer(send, HTTPStatus.OK, models(tuple(self._routes.values())))
        else:
            await self._complete(caller, scope, receive, send)

    async def _complete(self, caller: InstanceId, scope: Scope, receive: Receive, send: Send) -> None:
        with self._counted(caller) as busy:
            if busy:
                await self._refuse(send, busy, caller)
                return
            request = await self._request(caller, receive)
            if request is None:
                return  # its client has gone
            if isinstance(request, Refused):
                await self._refuse(send, request, caller)
                return
            tokens = (request.input_tokens, request.output_tokens, request.least_output)
            reserved = self._admission.reserve(caller, tokens, self._prices)
            if isinstance(reserved, Refused):
                await self._refuse(send, reserved, caller, request.model)
                return
            body = json.dumps(request.limited(reserved.output_tokens), separators=(",", ":")).encode()
            answer = _Answer(send, self._keys)
            try:
                await self._ask(_Asked(caller, request.model, body, reserved.reservation), scope, receive, answer)
            finally:
                self._admission.answered(reserved, is_free=answer.status >= HTTPStatus.BAD_REQUEST)

    @contextmanager
    def _counted(self, caller: InstanceId) -> Iterator[Refused | None]:
        if self._open.total() >= self._limits.all_at_once:
            yield Refused(HTTPStatus.SERVICE_UNAVAILABLE, "503", "the router is busy", retry_after_s=2)
            return
        if self._open[caller] >= self._limits.at_once:
            words = f"{self._limits.at_once} requests of this agent are open already"
            yield Refused(HTTPStatus.TOO_MANY_REQUESTS, "too_many_at_once", words, retry_after_s=2)
            return
        self._open[caller] += 1
        try:
            yield None
        finally:
            self._open[caller] -= 1
            if not self._open[caller]:
                del self._open[caller]

    async def _request(self, caller: InstanceId, receive: Receive) -> Completion | Refused | None:
        """Read and check a completion request; ``None`` if the client has disconnected."""
        pieces, size = list[bytes](), 0
        try:
            async with asyncio.timeout(self._limits.body_s):
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        return None
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > self._limits.body_bytes:
                        words = f"more than {self._limits.body_bytes >> 20} MiB"
                        return Refused(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "413", words)
                    if not message.get("more_body"):
                        break
        except TimeoutError:
            return Refused(HTTPStatus.REQUEST_TIMEOUT, "408", "the request did not arrive in time")
        try:
            result = parsed(json.loads(b"".join(pieces)))
        except (ValueError, RecursionError):
            return bad_request()
        if isinstance(result, Refused):
            return result
        model, raw = result
        if model not in self._routes:
            return unknown_model(model)
        longest = self._admission.longest(caller, self._limits.output_tokens)
        return read_completion(raw, self._routes, size, longest)

    async def _ask(self, request: "_Asked", scope: Scope, receive: Receive, answer: "_Answer") -> None:
        """Forward a request to LiteLLM and its answer to the client."""
        began = time.monotonic()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(request.body)).encode())]
        headers += [header for header in scope["headers"] if header[0] == b"authorization"]
        state = {**scope.get("state", {}), CALLER: request.caller, RESERVATION: request.reservation}
        inner = {**scope, "headers": headers, "query_string": b"", "state": state}
        is_sent = False

        async def replay() -> Message:
            nonlocal is_sent
            if is_sent:
                return await receive()
            is_sent = True
            return {"type": "http.request", "body": request.body, "more_body": False}

        try:
            async with asyncio.timeout(self._limits.answer_s):
                await self._app(inner, replay, answer)
        except TimeoutError:
            if not answer.status:
                await self._refuse(
                    answer.send, provider_error(HTTPStatus.GATEWAY_TIMEOUT), request.caller, request.model
                )
            # Else the server cuts the connection: an answer that ends in its middle must not look whole.
            else:
                raise
        finally:
            if answer.status:
                self._metrics.count("hermes_router_answers_total", model=request.model, status=str(answer.status))
                self._metrics.took(request.model, time.monotonic() - began)

    async def _refuse(self, send: Send, refused: Refused, caller: InstanceId | None = None, model: str = "") -> None:
        self._metrics.count("hermes_router_refused_total", status=str(int(refused.status)), code=refused.code)
        if caller:
            self._use(Usage(caller, datetime.now(UTC).date(), model, "", str(int(refused.status)), 1))
        # Closed: a part of the request may not have been read, and who sends it may never end.
        await _answer(send, refused.status, refused.body(), retry_after_s=refused.retry_after_s, closes=True)


@dataclass(frozen=True)
class _Asked:
    """A checked request on its way to LiteLLM."""

    caller: InstanceId
    model: str
    body: bytes
    reservation: str


class _Answer:
    """Forwards an answer as it arrives; an error is held until its end and rephrased."""

    def __init__(self, send: Send, keys: Sequence[bytes]) -> None:
        self.send = send
        self._keys = keys
        self._error = bytearray()
        self._retry_after_s = 0
        self.status = 0

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = int(message["status"])
            headers = [(name, value) for name, value in message.get("headers", ()) if name.lower() in _PASSED_BACK]
            if self.status < HTTPStatus.BAD_REQUEST:
                await self.send({**message, "headers": headers})
            else:
                after = dict(headers).get(b"retry-after", b"")
                self._retry_after_s = int(after) if after.isdigit() else 0
        elif message["type"] != "http.response.body":
            return
        elif self.status < HTTPStatus.BAD_REQUEST:
            await self.send({**message, "body": self._scrubbed(message.get("body", b""))})
        else:
            self._error += message.get("body", b"")[: _ERROR_BYTES - len(self._error)]
            if not message.get("more_body"):
                refused = provider_error(self.status, _said(bytes(self._error)), self._retry_after_s)
                self.status = int(refused.status)
                await _answer(self.send, refused.status, refused.body(), retry_after_s=refused.retry_after_s)

    def _scrubbed(self, body: bytes) -> bytes:
        if body.startswith(_STREAM_ERROR):
            status = _code_of(body)
            error = provider_error(status).body()
            return b"data: " + json.dumps(error).encode() + b"\n\n"
        for key in self._keys:
            body = body.replace(key, b"***")
        return body


def models(routes: Sequence[ModelRoute]) -> dict[str, object]:
    """The answer to ``/v1/models``, in OpenAI's shape."""
    listed = [
        {"id": route.name, "object": "model", "owned_by": "hermesops", "context_length": route.context_tokens}
        for route in routes
    ]
    return {"object": "list", "data": listed}


def provider_error(status: int, cause: str = "", retry_after_s: int = 0) -> Refused:
    """Translate a provider's error into an answer for the agent.

    A provider's refusal of the platform's key is no fault of the agent's token: 502, not 401.

    Args:
        cause: The provider's message; forwarded only if the request is at fault, for instance too long.
    """
    if status in {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}:
        message = _KEY.sub("***", cause)[:_MESSAGE_CHARS] or "the model's provider refuses the request"
        is_long = "context" in cause.lower() and ("length" in cause.lower() or "window" in cause.lower())
        return Refused(HTTPStatus.BAD_REQUEST, "context_length_exceeded" if is_long else "bad_request", message)
    if status == HTTPStatus.TOO_MANY_REQUESTS and _RESTING not in cause:
        message = "the model's provider allows no more requests now"
        return Refused(status, "rate_limit_exceeded", message, "rate_limit_error", retry_after_s)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.FORBIDDEN, HTTPStatus.PAYMENT_REQUIRED, HTTPStatus.NOT_FOUND}:
        message = "the model's provider refuses the platform"
        return Refused(HTTPStatus.BAD_GATEWAY, "provider_refuses", message, "server_error")
    if status in {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.GATEWAY_TIMEOUT}:
        message = "the model's provider does not answer in time"
        return Refused(HTTPStatus.GATEWAY_TIMEOUT, "upstream_timeout", message, "server_error")
    message = "the model's provider fails"
    # What is no error of HTTP is a bug of LiteLLM's or ours, or a provider that answers what nobody can read.
    known = status in {HTTPStatus.BAD_GATEWAY, HTTPStatus.SERVICE_UNAVAILABLE}
    shown_status = status if known else HTTPStatus.BAD_GATEWAY
    return Refused(shown_status, "upstream_unavailable", message, "server_error", retry_after_s)


def _said(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return ""


def _code_of(frame: bytes) -> int:
    try:
        return int(json.loads(frame.removeprefix(b"data: "))["error"]["code"])
    except (ValueError, KeyError, TypeError):
        return HTTPStatus.BAD_GATEWAY


def _address(scope: Scope, headers: MutableMapping[bytes, bytes]) -> str:
    """The client's address, from the header of nginx, which alone reaches the socket; else that of the connection."""
    if address := headers.get(b"x-real-ip"):
        return address.decode("latin-1")
    return str(scope["client"][0]) if scope.get("client") else ""


async def _answer(
    send: Send, status: int, body: dict[str, object], *, retry_after_s: int = 0, closes: bool = False
) -> None:
    data = json.dumps(body).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(data)).encode())]
    if retry_after_s:
        headers.append((b"retry-after", str(retry_after_s).encode()))
    if closes:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": int(status), "headers": headers})
    await send({"type": "http.response.body", "body": data})
