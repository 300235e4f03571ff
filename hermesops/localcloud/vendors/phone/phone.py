"""The phone over HTTP: its page, and the calls by which the page reads chats and acts in them.

Whoever reaches this computer's loopback may use it, as the world's issuer; pages of other origins may not.
"""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from http import HTTPStatus
from importlib.resources import files
from typing import Any
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from hermesops.localcloud.vendors.phone.chats import PhoneChat

PREFIX = "/phone"

_WAIT_S = 20.0
_LARGEST = 64 << 10
_LONGEST_TEXT = 16_384
_HOSTS = frozenset({"localhost", "127.0.0.1"})
_FILES: Mapping[str, str] = {
    "phone.css": "text/css; charset=utf-8",
    "phone.js": "text/javascript; charset=utf-8",
    "formatting.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'none'; frame-ancestors 'none'; base-uri 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "cache-control": "no-store",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}


class Phone:
    """The phone of one person.

    Args:
        chats: Of the messengers that are there, in the order of the tabs.
    """

    def __init__(self, chats: Sequence[PhoneChat]) -> None:
        self._chats = {chat.key: chat for chat in chats}

    def routes(self) -> list[Route]:
        """Routes of the page, its assets and its chats, below the phone's prefix."""
        return [
            Route("/", self._page, methods=["GET"]),
            Route("/assets/{name}", self._asset, methods=["GET"]),
            Route("/messengers", self._list, methods=["GET"]),
            Route("/messengers/{key}", self._read, methods=["GET"]),
            Route("/messengers/{key}/{action}", self._act, methods=["POST"]),
        ]

    async def _page(self, request: Request) -> Response:
        if not _is_of_here(request):
            return _refusal()
        page = (files(__package__) / "pages" / "index.html").read_bytes()
        return Response(page, media_type="text/html; charset=utf-8", headers=_HEADERS)

    async def _asset(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name not in _FILES:
            return Response(status_code=HTTPStatus.NOT_FOUND)
        content = (files(__package__) / "pages" / "assets" / name).read_bytes()
        return Response(content, media_type=_FILES[name], headers=_HEADERS)

    async def _list(self, request: Request) -> Response:
        if not _is_of_here(request):
            return _refusal()
        rows = [
            {"key": chat.key, "title": chat.title, "bot": chat.bot, "blocks": chat.block is not None}
            for chat in self._chats.values()
        ]
        return JSONResponse({"messengers": rows}, headers=_HEADERS)

    async def _read(self, request: Request) -> Response:
        """The chat, at once where its version is another than ``after``, else after a change or some seconds."""
        chat = self._chats.get(request.path_params["key"])
        if chat is None or not _is_of_here(request):
            return _refusal()
        after, view = request.query_params.get("after", ""), chat.read()
        if after == str(view.version):
            try:
                await chat.changed(view.version, min(_WAIT_S, view.typing_s or _WAIT_S))
            except asyncio.CancelledError:  # the world's server stops, which is no error of this request
                return Response(status_code=HTTPStatus.SERVICE_UNAVAILABLE)
            view = chat.read()
        return JSONResponse(asdict(view), headers=_HEADERS)

    async def _act(self, request: Request) -> Response:
        chat = self._chats.get(request.path_params["key"])
        if chat is None or not _is_of_here(request) or not _is_of_page(request):
            return _refusal()
        body = _object(await request.body())
        match request.path_params["action"]:
            case "say" if text := str(body.get("text", "")).strip()[:_LONGEST_TEXT]:
                is_taken = chat.say(text)
            case "start":
                is_taken = chat.start(str(body.get("code", ""))[:64])
            case "press" if chat.press and isinstance(message := body.get("message"), int):
                is_taken = chat.press(message, str(body.get("data", ""))[:64])
            case "block" if chat.block:
                is_taken = chat.block(body.get("is_blocked") is True)
            case _:
                return Response(status_code=HTTPStatus.BAD_REQUEST)
        return Response(status_code=HTTPStatus.ACCEPTED if is_taken else HTTPStatus.TOO_MANY_REQUESTS)


def to_page(request: Request) -> Response:
    """Lead a browser from the prefix to the page, whose addresses are relative to it."""
    return RedirectResponse(f"{request.url.path}/", HTTPStatus.PERMANENT_REDIRECT)


def _is_of_here(request: Request) -> bool:
    """Whether a browser asks under a name of this computer: another name may lead here from anywhere."""
    return request.url.hostname in _HOSTS


def _is_of_page(request: Request) -> bool:
    """Whether the page itself asks, and no page of another origin."""
    origin = urlsplit(request.headers.get("origin", ""))
    return origin.scheme == request.url.scheme and origin.netloc == request.headers.get("host", "")


def _object(body: bytes) -> Mapping[str, Any]:
    try:
        content = json.loads(body[:_LARGEST])
    except ValueError:
        return {}
    return content if isinstance(content, dict) else {}


def _refusal() -> Response:
    return Response(status_code=HTTPStatus.FORBIDDEN)
