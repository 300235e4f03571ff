"""Sends messages by Discord's HTTP API, within the limits that its answers name.

Source: Discord, "Create Message" (``nonce``, ``enforce_nonce``), "Uploading Files", "Attachment Object", "Component
Reference", "Trigger Typing Indicator", "Get Channel Messages", "Rate Limits", "Get Gateway Bot", "Opcodes and Status
Codes" (JSON error codes), "Edit Current Application", "Bulk Overwrite Global Application Commands".
"""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import UserFile, largest_download
from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.commands import BUTTONS, is_request
from hermesops.users.messaging.messengers.discord.interactions import COMMANDS
from hermesops.users.messaging.messengers.exchange import Answer, Form, call, fetch
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.wire.foreign_text import one_line

ADDRESS = "https://discord.com/api/v10"

_VENDOR = "Discord"
_FILES = ("cdn.discordapp.com",)
_AGENT = "DiscordBot (hermesops, 1)"
_NO_EMBEDS = 4
_STYLES = {"/approve": 3, "/deny": 4}
_BUTTONS = [
    {"type": 2, "style": _STYLES[command], "label": label, "custom_id": command} for command, label in BUTTONS.items()
]
_LONGEST_LIMIT_S = 3600.0
_UNKNOWN_LIMIT_S = 30.0
_MOST_CHATS = 100_000
_BLOCKED = frozenset({50007, 50278})
"""The person takes no messages of the bot, or shares no server with it any more."""

_ON_HERE = {"contexts": [1], "integration_types": [0, 1]}


@dataclass(frozen=True)
class Entrance:
    """Where the gateway is, and how often a session may begin.

    Attributes:
        left: Sessions that may begin until ``again_s`` have passed.
    """

    url: str
    left: int
    again_s: float


@dataclass(frozen=True)
class Application:
    """The application, as Discord has it.

    Attributes:
        public_key: By which interactions are signed.
        webhook: Address that takes interactions; empty for none.
    """

    id: str
    name: str
    public_key: str
    webhook: str


class DiscordBot:
    """The bot of all users.

    Args:
        token: Read for each request, as it may be changed.
        address: Of the HTTP API, with its version.
        clock: Seconds of a clock that does not go back.
    """

    def __init__(
        self, token: Callable[[], str], address: str = ADDRESS, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.token = token
        self._address = address
        self._clock = clock
        self._free_at: dict[str, float] = {}

    async def send(self, outgoing: Outgoing) -> Delivery:
        """Send a part, once, also where it is sent again within some minutes: Discord knows its nonce.

        Raises nothing: what became of it is the result. Nothing is sent while Discord takes none of this chat.
        """
        body: dict[str, object] = {
            "content": "" if outgoing.file else outgoing.text,
            "nonce": f"out-{outgoing.id}",
            "enforce_nonce": True,
            "allowed_mentions": {"parse": []},  # no text of an agent's calls anybody
            "flags": _NO_EMBEDS,  # no request of Discord's goes where an agent's text says
        }
        path = f"channels/{outgoing.vendor_chat}/messages"
        if outgoing.file is not None:
            return await self._of_route(path, form=Form({"payload_json": json.dumps(body)}, outgoing.file, "files[0]"))
        if is_request(outgoing.text):
            body["components"] = [{"type": 1, "components": _BUTTONS}]
        return await self._of_route(path, body)

    async def file(self, vendor_chat: str, file: UserFile) -> bytes:
        """Read a file of a person's message, whose address Discord gives for a day.

        Raises:
            RefusedError: The message, or the file, is gone.
            TooLargeError: See there.
            UnavailableError: Discord does not answer, or wants fewer requests.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        message, _, id_ = file.reference.partition("/")
        answer = await self._call(f"channels/{vendor_chat}/messages/{message}")
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer)
        listed = answer.content.get("attachments")
        rows = [row for row in (listed if isinstance(listed, list) else []) if isinstance(row, dict)]
        url = next((row.get("url") for row in rows if row.get("id") == id_), None)
        if not isinstance(url, str):
            raise RefusedError("Discord has the file no more")
        hosts = _FILES if self._address == ADDRESS else (urlsplit(self._address).netloc,)
        return await fetch(_VENDOR, url, hosts=hosts, largest=largest_download(Messenger.DISCORD))

    async def show_typing(self, vendor_chat: str, message_id: str) -> Delivery:  # noqa: ARG002 - the chat is enough here
        """Show that an answer is being written, for ten seconds or until a message comes."""
        return await self._of_route(f"channels/{vendor_chat}/typing", {})

    async def messages(self, vendor_chat: str, after: str) -> Sequence[Mapping[str, Any]]:
        """Messages of a chat after one, oldest first, a hundred at most.

        Raises:
            UnavailableError: Discord does not answer, or wants fewer requests.
            UnknownOutcomeError: As ``UnavailableError``.
            RefusedError: Discord does not take the token, or the chat is gone.
        """
        answer = await self._call(f"channels/{vendor_chat}/messages?after={after}&limit=100")
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer)
        return sorted(answer.rows, key=lambda row: int(row["id"]) if str(row.get("id", "")).isdigit() else 0)

    async def entrance(self) -> Entrance:
        """Where the gateway is.

        Raises:
            As ``messages``.
        """
        answer = await self._call("gateway/bot")
        url, limit = answer.content.get("url"), answer.content.get("session_start_limit")
        if answer.status != HTTPStatus.OK or not isinstance(url, str) or not isinstance(limit, Mapping):
            raise _not_told(answer)
        return Entrance(url[:256], int(_number(limit.get("remaining"), 1)), _number(limit.get("reset_after"), 0) / 1000)

    async def application(self) -> Application:
        """The application.

        Raises:
            As ``messages``.
        """
        answer = await self._call("applications/@me")
        content = answer.content
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer)
        texts = (content.get(key) for key in ("id", "name", "verify_key", "interactions_endpoint_url"))
        return Application(*(one_line(str(text or ""), longest=256) for text in texts))

    async def set_webhook(self, app: str, url: str) -> None:
        """Have Discord send interactions to an address, which it asks at once, and show the bot's commands.

        Raises:
            RefusedError: Discord does not take the token, or the address.
            UnavailableError: Discord does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._call("applications/@me", {"interactions_endpoint_url": url}, "PATCH")
        if answer.status == HTTPStatus.BAD_REQUEST:
            raise RefusedError(f"Discord does not take the address {url}: {_words_in(answer)}")
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer)
        commands = [{**command, **_ON_HERE} for command in COMMANDS]
        answer = await self._call(f"applications/{app}/commands", commands, "PUT")
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer)

    async def _of_route(
        self, path: str, body: Mapping[str, object] | None = None, form: Form | None = None
    ) -> Delivery:
        """Send to a route with a limit of its own."""
        left_s = self._free_at.get(path, float("-inf")) - self._clock()
        if left_s > 0:
            return Limited(left_s)
        try:
            answer = await self._call(path, body, form=form)
        except UnavailableError as error:
            return Away(error.message)
        except UnknownOutcomeError as error:
            return Uncertain(error.message)
        self._note(path, answer)
        return delivery_of(answer)

    def _note(self, path: str, answer: Answer) -> None:
        """Note until when a route takes no more, as its answer says."""
        self._free_at.pop(path, None)
        if answer.headers.get("x-ratelimit-remaining") == "0":
            self._free_at[path] = self._clock() + _seconds(answer.headers.get("x-ratelimit-reset-after", ""), 0.0)
        if len(self._free_at) > _MOST_CHATS:
            del self._free_at[next(iter(self._free_at))]

    async def _call(self, path: str, body: object = None, method: str = "", form: Form | None = None) -> Answer:
        headers = {"authorization": f"Bot {self.token()}", "user-agent": _AGENT}
        return await call(_VENDOR, f"{self._address}/{path}", body, headers, method=method, form=form)


def delivery_of(answer: Answer) -> Delivery:
    """What an answer of the HTTP API says about a message. Pure."""
    content, status = answer.content, answer.status
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        known = content.get("retry_after")
        wait_s = _number(known, _seconds(answer.retry_after, _UNKNOWN_LIMIT_S))
        is_for_all = content.get("global") is True or "x-ratelimit-global" in answer.headers
        return Limited(min(_LONGEST_LIMIT_S, max(0.1, wait_s)), is_for_all=is_for_all)
    if status in {HTTPStatus.OK, HTTPStatus.NO_CONTENT}:
        id_ = content.get("id")
        is_read = isinstance(id_, str) or status == HTTPStatus.NO_CONTENT
        return Sent(id_[:128] if isinstance(id_, str) else "") if is_read else Uncertain("HTTP 200")
    words = _words_in(answer)
    if status == HTTPStatus.UNAUTHORIZED:
        return Away(words, is_of_token=True)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Away(words)
    return Refused(words, is_blocked=content.get("code") in _BLOCKED)


def _words_in(answer: Answer) -> str:
    return one_line(str(answer.content.get("message") or f"HTTP {answer.status}"), longest=120)


def _number(value: object, otherwise: float) -> float:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if is_number else otherwise  # type: ignore[arg-type]


def _seconds(text: str, otherwise: float) -> float:
    try:
        seconds = float(text)
    except ValueError:
        return otherwise
    return min(_LONGEST_LIMIT_S, seconds) if seconds >= 0 else otherwise


def _not_told(answer: Answer) -> RefusedError | UnavailableError:
    """The error for an answer without a result."""
    if answer.status == HTTPStatus.UNAUTHORIZED:
        hint = Hint(("secrets", "set", "discord.token", "--from", "FILE"))
        return RefusedError("Discord does not take the token of the bot", hint=hint)
    if answer.status in {HTTPStatus.FORBIDDEN, HTTPStatus.NOT_FOUND}:
        return RefusedError(f"Discord refuses: {_words_in(answer)}")
    return UnavailableError(f"Discord answers {_words_in(answer)}")
