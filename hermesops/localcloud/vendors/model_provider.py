"""A stand-in of a model provider to which users bring their own keys: OpenAI's API, by the world's script.

It takes keys of a file that the world makes as it comes up, a key a line, read at each request: a line that is taken
out is refused at once. It keeps and logs nothing of keys and of what is said.

Source: OpenAI API reference, models, chat completions and error codes.
"""

import hmac
import json
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.localcloud.model_router import scripted_model
from hermesops.localcloud.model_router.scripted_model import answer_to, messages_of, tools_of

PREFIX = "/provider/v1"
KEY_PREFIX = "world-key-"
"""First characters of the key that a world makes."""

MODELS = ("world-small", "world-large")
"""Models that it has, by name."""

MOST_REQUESTS = 60
WINDOW_S = 60.0
"""Requests of a key within these seconds; a further one is answered 429."""

LARGEST_BODY = 4 << 20
"""Bytes of a request: a conversation with pictures."""

_MOST_KEYS = 100
_LONGEST_KEYS = 64 * 1024
_MOST_MESSAGES = 4_000


@dataclass
class LocalModelProvider:
    """Serves ``/models`` and ``/chat/completions`` to whoever has a key.

    Args:
        keys_file: Has a key a line.
        monotonic: Seconds of a clock that never goes back.
    """

    keys_file: Path
    monotonic: Callable[[], float] = time.monotonic
    _used: "OrderedDict[str, tuple[float, int]]" = field(default_factory=OrderedDict)

    def routes(self) -> list[Route]:
        """What is mounted at ``PREFIX``."""
        return [
            Route("/models", self._models, methods=["GET"]),
            Route("/chat/completions", self._complete, methods=["POST"]),
        ]

    async def _models(self, request: Request) -> Response:
        if refusal := self._refused(request):
            return refusal
        entries = [{"id": name, "object": "model", "created": 0, "owned_by": "world"} for name in MODELS]
        return JSONResponse({"object": "list", "data": entries})

    async def _complete(self, request: Request) -> Response:
        if refusal := self._refused(request):
            return refusal
        body = await _body_of(request)
        if body is None:
            return _error(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "request_too_large", "the request is too large")
        completion = _parsed(body)
        if completion is None:
            return _error(HTTPStatus.BAD_REQUEST, "invalid_value", "the request is no chat completion")
        model = completion.get("model")
        if model not in MODELS:
            return _error(HTTPStatus.NOT_FOUND, "model_not_found", f"there is no such model; there are {MODELS}")
        return _answered(completion, str(model), len(body))

    def _refused(self, request: Request) -> Response | None:
        """The refusal of a request without a known key, or of one too many; ``None`` for one to answer."""
        key = self._key_of(request.headers.get("authorization", ""))
        if not key:
            return _error(HTTPStatus.UNAUTHORIZED, "invalid_api_key", "incorrect API key provided")
        left_s = self._wait_s(sha256(key.encode()).hexdigest())
        if left_s:
            refusal = _error(HTTPStatus.TOO_MANY_REQUESTS, "rate_limit_exceeded", "too many requests")
            refusal.headers["retry-after"] = str(left_s)
            return refusal
        return None

    def _key_of(self, authorization: str) -> str:
        """The key of a request; empty for one that is not in the file."""
        scheme, _, given = authorization.partition(" ")
        known = self._keys()
        matching = [key for key in known if hmac.compare_digest(key.encode(), given.encode())]
        return given if matching and scheme.lower() == "bearer" else ""

    def _keys(self) -> list[str]:
        try:
            with self.keys_file.open(encoding="utf-8", errors="replace") as file:
                lines = file.read(_LONGEST_KEYS).splitlines()
        except FileNotFoundError:
            return []
        return [line.strip() for line in lines if line.strip()][:_MOST_KEYS]

    def _wait_s(self, caller: str) -> int:
        """Count a request; seconds that a caller has to wait, 0 for none."""
        now = self.monotonic()
        began, count = self._used.pop(caller, (now, 0))
        began, count = (began, count + 1) if now - began < WINDOW_S else (now, 1)
        self._used[caller] = began, count
        while len(self._used) > _MOST_KEYS:
            self._used.popitem(last=False)
        return max(1, round(began + WINDOW_S - now)) if count > MOST_REQUESTS else 0


async def _body_of(request: Request) -> bytes | None:
    """A request's body; ``None`` where it is too large."""
    data = bytearray()
    async for piece in request.stream():
        data += piece
        if len(data) > LARGEST_BODY:
            return None
    return bytes(data)


def _parsed(body: bytes) -> Mapping[str, object] | None:
    """The fields of a chat completion; ``None`` for anything else."""
    try:
        raw = json.loads(body)
    except (ValueError, RecursionError):
        return None
    messages = raw.get("messages") if isinstance(raw, dict) else None
    is_completion = isinstance(messages, list) and 0 < len(messages) <= _MOST_MESSAGES
    return raw if is_completion and all(isinstance(message, dict) for message in messages or ()) else None


def _answered(completion: Mapping[str, object], model: str, length: int) -> Response:
    """The script's answer, whole or as a stream; it never waits."""
    answer = answer_to(messages_of(completion), tools_of(completion))
    id_, created = f"chatcmpl-{uuid4().hex}", int(time.time())
    if completion.get("stream") is True:
        events = scripted_model.stream(id_, created, model, answer.content, length)
        return StreamingResponse(events, media_type="text/event-stream")
    return JSONResponse(scripted_model.whole(id_, created, model, answer.content, length))


def _error(status: int, code: str, message: str) -> Response:
    """An error in the shape of OpenAI's API."""
    error = {"message": message, "type": "invalid_request_error", "param": None, "code": code}
    return JSONResponse({"error": error}, status)
