"""Sends messages by Telegram's Bot API. The bot's token is in the address of each request, so that none is logged.

Source: Telegram Bot API, "Making requests", "ResponseParameters", "Sending files", ``sendMessage``, ``sendDocument``,
``sendChatAction``, ``getFile``, ``getWebhookInfo``, ``setWebhook``; its FAQ for bots, "My bot is hitting limits".
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.messaging.files import UserFile, largest_download
from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.commands import BUTTONS, is_request
from hermesops.users.messaging.messengers.exchange import Answer, Form, TooLargeError, call, fetch
from hermesops.users.messaging.messengers.telegram import write
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, Sent, Uncertain
from hermesops.wire.foreign_text import one_line

ADDRESS = "https://api.telegram.org"

_LONGEST_LIMIT_S = 3 * 3600.0
"""The longest wait that is believed; users report bans of three hours."""

_UNKNOWN_LIMIT_S = 30.0
_PATH = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]{0,255}")


@dataclass(frozen=True)
class Webhook:
    """An address to which Telegram sends updates.

    Attributes:
        url: Empty for none.
        waiting: Updates that were not taken yet.
        problem: Why the last one was not taken, in Telegram's words; empty for none.
    """

    url: str
    waiting: int = 0
    problem: str = ""


class TelegramBot:
    """The bot of all users.

    Args:
        token: Read for each request, as it may be changed.
        address: Of the Bot API.
    """

    def __init__(self, token: Callable[[], str], address: str = ADDRESS) -> None:
        self._token = token
        self._address = address

    async def send(self, outgoing: Outgoing) -> Delivery:
        """Send a part, once. Raises nothing: what became of it is the result."""
        if outgoing.file is not None:
            # Never sendPhoto, which refuses photos of some shapes, and shrinks others.
            return await self._call(
                "sendDocument", form=Form({"chat_id": outgoing.vendor_chat}, outgoing.file, "document")
            )
        body: dict[str, object] = {
            "chat_id": int(outgoing.vendor_chat),
            **write.parse(outgoing.text),
            "link_preview_options": {"is_disabled": True},
        }
        if is_request(str(body["text"])):
            row = [{"text": label, "callback_data": command} for command, label in BUTTONS.items()]
            body["reply_markup"] = {"inline_keyboard": [row]}
        return await self._call("sendMessage", body)

    async def show_typing(self, vendor_chat: str, message_id: str) -> Delivery:  # noqa: ARG002 - the chat is enough here
        """Show that an answer is being written, for five seconds or until a message comes."""
        return await self._call("sendChatAction", {"chat_id": int(vendor_chat), "action": "typing"})

    async def file(self, vendor_chat: str, file: UserFile) -> bytes:  # noqa: ARG002 - a file's id is enough here
        """Read a file of a person's message.

        Raises:
            RefusedError: Telegram has it no more.
            TooLargeError: See there.
            UnavailableError: Telegram does not answer.
            UnknownOutcomeError: As ``UnavailableError``.
        """
        answer = await self._exchange("getFile", {"file_id": file.reference})
        result = answer.content.get("result")
        path = result.get("file_path") if isinstance(result, Mapping) else None
        if answer.status == HTTPStatus.BAD_REQUEST and "too big" in str(answer.content.get("description")):
            raise TooLargeError("Telegram gives bots no file of this size")
        if answer.status != HTTPStatus.OK or not isinstance(path, str):
            raise _not_told(answer.status)
        if not _PATH.fullmatch(path) or ".." in path:
            raise RefusedError("Telegram names no path of a file")
        url = f"{self._address}/file/bot{self._token()}/{path}"
        return await fetch("Telegram", url, hosts=[urlsplit(url).netloc], largest=largest_download(Messenger.TELEGRAM))

    async def name(self) -> str:
        """The bot's name at Telegram.

        Raises:
            RefusedError: Telegram does not take the token.
            UnavailableError: Telegram does not answer.
        """
        answer = await self._exchange("getMe", {})
        status, result = answer.status, answer.content.get("result")
        name = result.get("username") if isinstance(result, Mapping) else None
        if status != HTTPStatus.OK or not isinstance(name, str):
            raise _not_told(status)
        return one_line(name, longest=64)

    async def webhook(self) -> Webhook:
        """The address to which Telegram sends updates, and how that goes.

        Raises:
            RefusedError: Telegram does not take the token.
            UnavailableError: Telegram does not answer.
        """
        answer = await self._exchange("getWebhookInfo", {})
        info = answer.content.get("result")
        if answer.status != HTTPStatus.OK or not isinstance(info, Mapping):
            raise _not_told(answer.status)
        waiting = info.get("pending_update_count")
        return Webhook(
            url=one_line(str(info.get("url") or ""), longest=256),
            waiting=waiting if isinstance(waiting, int) and not isinstance(waiting, bool) else 0,
            problem=one_line(str(info.get("last_error_message") or ""), longest=200),
        )

    async def set_webhook(self, url: str, secret: str) -> None:
        """Have Telegram send updates to an address from now on, with this secret; repeating it changes nothing.

        Raises:
            RefusedError: Telegram does not take the token, or the address.
            UnavailableError: Telegram does not answer.
        """
        body = {"url": url, "secret_token": secret, "allowed_updates": ["message", "my_chat_member", "callback_query"]}
        answer = await self._exchange("setWebhook", body)
        if answer.status == HTTPStatus.BAD_REQUEST:
            words = one_line(str(answer.content.get("description") or ""), longest=200)
            raise RefusedError(f"Telegram does not take the address {url}: {words}")
        if answer.status != HTTPStatus.OK:
            raise _not_told(answer.status)

    async def _call(self, method: str, body: Mapping[str, object] | None = None, form: Form | None = None) -> Delivery:
        try:
            return delivery_of(await self._exchange(method, body, form))
        except UnavailableError as error:
            return Away(error.message)
        except UnknownOutcomeError as error:
            return Uncertain(error.message)

    async def _exchange(self, method: str, body: Mapping[str, object] | None, form: Form | None = None) -> Answer:
        return await call("Telegram", f"{self._address}/bot{self._token()}/{method}", body, form=form)


def _not_told(status: int) -> RefusedError | UnavailableError:
    """The error for an answer without a result."""
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND}:
        hint = Hint(("secrets", "set", "telegram.token", "--from", "FILE"))
        return RefusedError("Telegram does not take the token of the bot", hint=hint)
    return UnavailableError(f"Telegram answers HTTP {status}")


def delivery_of(answer: Answer) -> Delivery:
    """What an answer of the Bot API says about a message. Pure."""
    status, content = answer.status, answer.content
    if status == HTTPStatus.OK and content.get("ok") is True:
        return Sent(_id_in(content.get("result")))
    words = one_line(str(content.get("description") or f"HTTP {status}"), longest=120)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        return Limited(_wait_in(content.get("parameters")))
    if status == HTTPStatus.FORBIDDEN:
        return Refused(words, is_blocked=True)
    if status == HTTPStatus.OK:  # taken, and the answer says nothing that can be read
        return Uncertain(words)
    if status in {HTTPStatus.UNAUTHORIZED, HTTPStatus.NOT_FOUND}:
        return Away(words, is_of_token=True)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return Away(words)
    return Refused(words)


def _id_in(result: object) -> str:
    number = result.get("message_id") if isinstance(result, Mapping) else None
    return str(number) if isinstance(number, int) else ""


def _wait_in(parameters: Any) -> float:  # noqa: ANN401 - JSON
    seconds = parameters.get("retry_after") if isinstance(parameters, Mapping) else None
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    return min(_LONGEST_LIMIT_S, max(1.0, float(seconds))) if is_number and seconds is not None else _UNKNOWN_LIMIT_S
