"""Telegram for the local world: one bot, people who write to it, and the limits that Telegram documents.

It counts what broke a limit. Nothing is kept on disk: with the world's end every chat is gone.

Source: Telegram Bot API, "Making requests", ``setWebhook``, ``sendMessage``, "ResponseParameters", "Update"; its FAQ
for bots, "My bot is hitting limits".
"""

import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any

import httpx
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.model.messaging.messenger import LIMITS, Messenger

PREFIX = "/telegram"

_BURST = 3
"""Messages of a chat that may come faster than one a second."""

_A_SECOND = 30
_ANSWER_S = 10.0
_AGAIN_S = 0.5
_MOST_TRIES = 60


@dataclass
class Chat:
    """A person's chat with the bot.

    Attributes:
        texts: What the bot wrote.
        typing: How often the bot showed that it writes.
        is_blocked: Whether the person has blocked the bot.
    """

    person: int
    name: str
    texts: list[str] = field(default_factory=list, repr=False)
    typing: int = 0
    is_blocked: bool = False
    _recent: deque[float] = field(default_factory=deque)
    _limited_until: float = 0.0
    _ignored: int = 0

    def limit_s(self, now: float) -> int:
        """Seconds that the bot has to wait; more each time that it did not. 0: it may write."""
        if now < self._limited_until:
            self._ignored += 1
            self._limited_until = now + 2.0**self._ignored
            return max(1, round(self._limited_until - now))
        while self._recent and self._recent[0] < now - _BURST:
            self._recent.popleft()
        if len(self._recent) >= _BURST:
            self._limited_until = now + 1.0
            return 1
        self._recent.append(now)
        self._ignored = 0
        return 0


class LocalTelegram:
    """The Telegram of one world.

    Args:
        token: Of the bot.
        clock: Seconds of a clock that does not go back.
    """

    def __init__(self, token: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.token = token or f"{secrets.randbelow(10**9)}:{secrets.token_urlsafe(24)}"
        self.chats: dict[int, Chat] = {}
        self.broken: Counter[str] = Counter()
        self.webhook, self.secret = "", ""
        self._clock = clock
        self._updates = 0
        self._messages = 0
        self._all: deque[float] = deque()

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [Route("/bot{token}/{method}", self._call, methods=["POST"])]

    def chat(self, person: int, name: str = "Ada") -> Chat:
        """A person's chat with the bot."""
        return self.chats.setdefault(person, Chat(person, name))

    def message(self, person: int, text: str) -> Mapping[str, Any]:
        """The update of a message that a person writes."""
        chat = self.chat(person)
        self._messages += 1
        message = {**_authored(chat), "message_id": self._messages, "date": int(time.time()), "text": text}
        return self._update({"message": message})

    def blocking(self, person: int, *, is_blocked: bool) -> Mapping[str, Any]:
        """The update of a person who blocks the bot, or does so no more."""
        chat = self.chat(person)
        chat.is_blocked = is_blocked
        status = "kicked" if is_blocked else "member"
        return self._update({"my_chat_member": {**_authored(chat), "new_chat_member": {"status": status}}})

    async def deliver(self, update: Mapping[str, Any]) -> int:
        """Send an update to the webhook until it is answered with success, as Telegram does; returns the attempts.

        Raises:
            TimeoutError: It was not.
        """
        async with own_client(timeout=_ANSWER_S) as http:
            for attempt in range(1, _MOST_TRIES + 1):
                if await self._is_taken(http, update):
                    return attempt
                await pause(_AGAIN_S)
        raise TimeoutError("the webhook takes nothing")

    async def _is_taken(self, http: httpx.AsyncClient, update: Mapping[str, Any]) -> bool:
        headers = {"x-telegram-bot-api-secret-token": self.secret} if self.secret else {}
        try:
            response = await http.post(self.webhook, json=dict(update), headers=headers)
        except httpx.HTTPError:
            return False
        return response.is_success

    def _update(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        self._updates += 1
        return {"update_id": self._updates, **content}

    async def _call(self, request: Request) -> Response:
        if request.path_params["token"] != self.token:
            return _failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        body = await request.json()
        match request.path_params["method"]:
            case "setWebhook":
                self.webhook, self.secret = str(body.get("url", "")), str(body.get("secret_token", ""))
                return _success(True)
            case "getMe":
                return _success({"id": 1, "is_bot": True, "username": "local_hermes_bot"})
            case "sendMessage" | "sendChatAction" as method:
                return self._to_chat(method, body)
        return _failure(HTTPStatus.NOT_FOUND, "Not Found")

    def _to_chat(self, method: str, body: Mapping[str, Any]) -> Response:
        chat = self.chats.get(body.get("chat_id", 0))
        if chat is None:
            return _failure(HTTPStatus.BAD_REQUEST, "Bad Request: chat not found")
        if chat.is_blocked:
            return _failure(HTTPStatus.FORBIDDEN, "Forbidden: bot was blocked by the user")
        if method == "sendChatAction":
            chat.typing += 1
            return _success(True)
        return self._write(chat, str(body.get("text", "")))

    def _write(self, chat: Chat, text: str) -> Response:
        if not text.strip() or LIMITS[Messenger.TELEGRAM].length(text) > LIMITS[Messenger.TELEGRAM].most:
            self.broken["text"] += 1
            return _failure(HTTPStatus.BAD_REQUEST, "Bad Request: message is too long or empty")
        wait_s = chat.limit_s(self._clock()) or self._limit_of_all_s()
        if wait_s:
            self.broken["pace"] += 1
            words = f"Too Many Requests: retry after {wait_s}"
            return _failure(HTTPStatus.TOO_MANY_REQUESTS, words, parameters={"retry_after": wait_s})
        chat.texts.append(text)
        self._messages += 1
        return _success({"message_id": self._messages, "chat": {"id": chat.person}, "text": text})

    def _limit_of_all_s(self) -> int:
        now = self._clock()
        while self._all and self._all[0] <= now - 1.0:
            self._all.popleft()
        if len(self._all) >= _A_SECOND:
            return 1
        self._all.append(now)
        return 0


def _authored(chat: Chat) -> dict[str, Any]:
    author = {"id": chat.person, "is_bot": False, "first_name": chat.name}
    return {"from": author, "chat": {"id": chat.person, "type": "private", "first_name": chat.name}}


def _success(result: Any) -> JSONResponse:  # noqa: ANN401 - JSON
    return JSONResponse({"ok": True, "result": result})


def _failure(status: HTTPStatus, description: str, **more: Any) -> JSONResponse:  # noqa: ANN401 - JSON
    return JSONResponse({"ok": False, "error_code": int(status), "description": description, **more}, status)
