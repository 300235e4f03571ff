"""Telegram for the local world: one bot, people who write to it, and the limits that Telegram documents.

It counts what broke a limit. Nothing is kept on disk: with the world's end every chat is gone.

Source: Telegram Bot API, "Making requests", ``setWebhook``, ``getWebhookInfo``, ``sendMessage``, ``editMessageText``,
``sendDocument``, ``getFile``, "Sending files", "ResponseParameters", "Update"; its FAQ for bots, "My bot is hitting
limits".
"""

import asyncio
import json
import secrets
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import replace
from http import HTTPStatus
from typing import Any

import httpx
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.localcloud.vendors.telegram_chats import TYPING_S, Chat, Entry
from hermesops.localcloud.vendors.users_door import UsersDoor
from hermesops.localcloud.vendors.vendor_files import VendorFile, VendorFiles, form_of
from hermesops.model.messaging.messenger import LIMITS, Messenger

PREFIX = "/telegram"
BOT = "local_hermes_bot"
"""Name of the bot."""

WEBHOOK_PATH = "/webhooks/telegram"
"""Path of the users' API that takes updates."""

_A_SECOND = 30
HANGS = -1
"""In the place of the status of a fault by which a call is answered far too late."""

_HANGS_S = 60.0
_ANSWER_S = 10.0
_AGAIN_S = 0.5
_MOST_TRIES = 60
_MOST_WAITING = 1_000
_LARGEST_READ, _LARGEST_SENT = 20_000_000, 50_000_000
"""Bytes of a file that a bot may read, and send."""

_IDS_FROM = 10**6
"""Size of a second's ids: ids of a new process are above those of one before it, whose rows may be there still."""

log = structlog.get_logger()


class LocalTelegram:
    """The Telegram of one world.

    Args:
        token: Of the bot.
        clock: Seconds of a clock that does not go back.
        webhook: Takes updates, until ``setWebhook`` says otherwise; ``secret`` proves them.
        heard: Called for each update that was taken.
        fault: Asked at each call of the bot: the status to answer with, 0 for none, ``HANGS`` for far too late.
        door: Says where updates go, at each.
    """

    def __init__(
        self,
        token: str = "",
        clock: Callable[[], float] = time.monotonic,
        *,
        webhook: str = "",
        secret: str = "",
        heard: Callable[[], None] = lambda: None,
        fault: Callable[[], int] = lambda: 0,
        door: Callable[[], UsersDoor] = UsersDoor,
    ) -> None:
        self.token = token or f"{secrets.randbelow(10**9)}:{secrets.token_urlsafe(24)}"
        self.chats: dict[int, Chat] = {}
        self.broken: Counter[str] = Counter()
        self.webhook, self.secret = webhook, secret
        self.changes = 0
        """Grows with each change of a chat."""

        self.answered = 0
        """How many buttons the bot has shown as pressed."""

        self.clock = clock
        self._heard, self._door = heard, door
        self.fault = fault
        self.files = VendorFiles("AgAC")
        self._updates = 0
        self._messages = 0
        self._all: deque[float] = deque()
        self._changed = asyncio.Event()
        self._waiting: asyncio.Queue[Mapping[str, Any]] = asyncio.Queue(_MOST_WAITING)
        self._delivering: asyncio.Task[None] | None = None
        self._last_error = ""

    def begin_after(self, seconds: float) -> None:
        """Number updates above all that an earlier process may have sent, by seconds since 1970."""
        self._updates = self._messages = int(seconds) * _IDS_FROM

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        return [
            Route("/bot{token}/{method}", self._call, methods=["POST"]),
            Route("/file/bot{token}/files/{id}", self._file, methods=["GET"]),
        ]

    def open(self) -> None:
        """Deliver updates from now on, in their order."""
        self._delivering = asyncio.ensure_future(self._deliver_all())

    async def close(self) -> None:
        """End deliveries; updates that were not taken are lost."""
        if self._delivering is not None:
            await cancel(self._delivering)

    async def changed(self, since: int, at_most_s: float) -> None:
        """Wait until a chat has changed after so many changes, or for so many seconds."""
        try:
            async with asyncio.timeout(at_most_s):
                while self.changes == since:
                    await self._changed.wait()
        except TimeoutError:
            return

    def chat(self, person: int, name: str = "Ada") -> Chat:
        """A person's chat with the bot."""
        return self.chats.setdefault(person, Chat(person, name))

    def message(self, person: int, text: str) -> Mapping[str, Any]:
        """The update of a message that a person writes."""
        chat = self.chat(person)
        chat.add(Entry(self._next_message(), is_of_bot=False, text=text))
        self._change()
        message = {**_authored(chat), "message_id": self._messages, "date": int(time.time()), "text": text}
        return self._update({"message": message})

    def sending(self, person: int, file: VendorFile, kind: str = "document", caption: str = "") -> Mapping[str, Any]:
        """The update of a file that a person sends: a ``document``, or as the Bot API calls another kind."""
        chat, id_ = self.chat(person), self.files.add(file)
        chat.add(Entry(self._next_message(), is_of_bot=False, text=file.shown, file=file))
        self._change()
        content: Any = {"file_id": id_, "file_unique_id": id_[-8:], "file_size": len(file.content)}
        if kind == "photo":
            content = [{**content, "width": 90, "height": 90}, {**content, "width": 800, "height": 800}]
        else:
            content |= {"file_name": file.name, "mime_type": file.media_type}
        message = {**_authored(chat), "message_id": self._messages, "date": int(time.time()), kind: content}
        return self._update({"message": {**message, **({"caption": caption} if caption else {})}})

    def pressing(self, person: int, message_id: int, data: str) -> Mapping[str, Any]:
        """The update of a button that a person presses."""
        chat = self.chat(person)
        message = {"message_id": message_id, "chat": _authored(chat)["chat"]}
        query = {"id": secrets.token_hex(8), "from": _authored(chat)["from"], "message": message, "data": data}
        return self._update({"callback_query": query})

    def blocking(self, person: int, *, is_blocked: bool) -> Mapping[str, Any]:
        """The update of a person who blocks the bot, or does so no more."""
        chat = self.chat(person)
        chat.is_blocked = is_blocked
        self._change()
        status = "kicked" if is_blocked else "member"
        return self._update({"my_chat_member": {**_authored(chat), "new_chat_member": {"status": status}}})

    def post(self, update: Mapping[str, Any]) -> bool:
        """Have an update delivered behind the earlier ones; ``False`` where too many wait."""
        try:
            self._waiting.put_nowait(update)
        except asyncio.QueueFull:
            return False
        return True

    async def deliver(self, update: Mapping[str, Any]) -> int:
        """Send an update to the webhook until it is answered with success, as Telegram does; returns the attempts.

        Raises:
            TimeoutError: It was not.
        """
        for attempt in range(1, _MOST_TRIES + 1):
            if await self._is_taken(update):
                self._heard()
                return attempt
            await pause(_AGAIN_S)
        raise TimeoutError("the webhook takes nothing")

    async def _deliver_all(self) -> None:
        while True:
            update = await self._waiting.get()
            try:
                await self.deliver(update)
            except TimeoutError:
                log.warning("telegram_update_given_up", why=self._last_error)

    async def _is_taken(self, update: Mapping[str, Any]) -> bool:
        headers = {"content-type": "application/json"}
        headers |= {"x-telegram-bot-api-secret-token": self.secret} if self.secret else {}
        body = json.dumps(dict(update))
        try:
            response = await self._door().request(
                "POST", self.webhook, content=body, headers=headers, within_s=_ANSWER_S
            )
        except (httpx.HTTPError, HermesError) as error:
            self._last_error = type(error).__name__
            return False
        # A door that has no API behind it answers with a page.
        if response.is_success and response.content and response.json().get("method") == "answerCallbackQuery":
            self.answered += 1
        self._last_error = "" if response.is_success else f"Wrong response from the webhook: {response.status_code}"
        return response.is_success

    def _update(self, content: Mapping[str, Any]) -> Mapping[str, Any]:
        self._updates += 1
        return {"update_id": self._updates, **content}

    def _next_message(self) -> int:
        self._messages += 1
        return self._messages

    def _change(self) -> None:
        self.changes += 1
        self._changed.set()
        self._changed = asyncio.Event()

    # The Bot API

    async def _call(self, request: Request) -> Response:
        if status := await self._status_of_fault():
            return _failure(status, "Unauthorized" if status == HTTPStatus.UNAUTHORIZED else "Bad Gateway")
        if request.path_params["token"] != self.token:
            return _failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        if request.path_params["method"] == "sendDocument":
            return await self._send_file(request)
        body = await request.json()
        match request.path_params["method"]:
            case "setWebhook":
                self.webhook, self.secret = str(body.get("url", "")), str(body.get("secret_token", ""))
                return _success(True)
            case "getWebhookInfo":
                return _success(self._webhook_info())
            case "getMe":
                return _success({"id": 1, "is_bot": True, "username": BOT})
            case "answerCallbackQuery":
                return _success(True)
            case "getFile":
                return self._file_info(str(body.get("file_id")))
            case "sendMessage" | "sendChatAction" | "editMessageText" as method:
                return self._to_chat(method, body)
        return _failure(HTTPStatus.NOT_FOUND, "Not Found")

    def _file_info(self, id_: str) -> Response:
        file = self.files.get(id_)
        if file is None or len(file.content) > _LARGEST_READ:
            return _failure(HTTPStatus.BAD_REQUEST, f"Bad Request: {'file is too big' if file else 'wrong file_id'}")
        return _success({"file_id": id_, "file_size": len(file.content), "file_path": f"files/{id_}"})

    async def _file(self, request: Request) -> Response:
        if request.path_params["token"] != self.token:
            return _failure(HTTPStatus.UNAUTHORIZED, "Unauthorized")
        return self.files.answer(request.path_params["id"])

    async def _send_file(self, request: Request) -> Response:
        fields, file = await form_of(request, "document")
        if file is None or not file.content or len(file.content) > _LARGEST_SENT:
            self.broken["file"] += 1
            return _failure(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "Request Entity Too Large")
        return self._to_chat("sendDocument", {"chat_id": int(fields["chat_id"]), "text": file.shown, "file": file})

    async def _status_of_fault(self) -> int:
        """The status of a fault, after a while for one that hangs; 0 without one."""
        if (status := self.fault()) != HANGS:
            return status
        await pause(_HANGS_S)
        return HTTPStatus.GATEWAY_TIMEOUT

    def _webhook_info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "url": self._door().address_of(self.webhook),
            "pending_update_count": self._waiting.qsize(),
        }
        return info | ({"last_error_message": self._last_error} if self._last_error else {})

    def _to_chat(self, method: str, body: Mapping[str, Any]) -> Response:
        chat = self.chats.get(body.get("chat_id", 0))
        if chat is None:
            return _failure(HTTPStatus.BAD_REQUEST, "Bad Request: chat not found")
        if chat.is_blocked:
            return _failure(HTTPStatus.FORBIDDEN, "Forbidden: bot was blocked by the user")
        if method == "sendChatAction":
            chat.typing += 1
            chat.typing_until = self.clock() + TYPING_S
            self._change()
            return _success(True)
        return self._write(chat, body, is_edit=method == "editMessageText")

    def _write(self, chat: Chat, body: Mapping[str, Any], *, is_edit: bool) -> Response:
        text = str(body.get("text", ""))
        if not text.strip() or LIMITS[Messenger.TELEGRAM].length(text) > LIMITS[Messenger.TELEGRAM].most:
            self.broken["text"] += 1
            return _failure(HTTPStatus.BAD_REQUEST, "Bad Request: message is too long or empty")
        wait_s = chat.limit_s(self.clock()) or self._limit_of_all_s()
        if wait_s:
            self.broken["pace"] += 1
            words = f"Too Many Requests: retry after {wait_s}"
            return _failure(HTTPStatus.TOO_MANY_REQUESTS, words, parameters={"retry_after": wait_s})
        keyboard = (body.get("reply_markup") or {}).get("inline_keyboard") or ()
        entry = Entry(
            0, is_of_bot=True, text=text, entities=body.get("entities") or (), keyboard=keyboard, file=body.get("file")
        )
        id_ = self._kept(chat, entry, body.get("message_id") if is_edit else None)
        if id_ is None:
            return _failure(HTTPStatus.BAD_REQUEST, "Bad Request: message to edit not found")
        self._change()
        return _success({"message_id": id_, "chat": {"id": chat.person}, "text": text})

    def _kept(self, chat: Chat, entry: Entry, edited: int | None) -> int | None:
        """The id of a message once it is in its chat; ``None`` where there is none to edit."""
        if edited is not None:
            return edited if chat.edit(edited, entry) else None
        id_ = self._next_message()
        chat.add(replace(entry, id=id_))
        return id_

    def _limit_of_all_s(self) -> int:
        now = self.clock()
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


def _failure(status: int, description: str, **more: Any) -> JSONResponse:  # noqa: ANN401 - JSON
    return JSONResponse({"ok": False, "error_code": int(status), "description": description, **more}, status)
