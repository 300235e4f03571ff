"""Verifies and reads updates of Telegram. Pure.

Source: Telegram Bot API, "Update", "Message", "PhotoSize", "Document", "Voice", "CallbackQuery", "ChatMemberUpdated",
"setWebhook".
"""

import hmac
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hermesops.model.messaging.files import FileKind, UserFile
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.files.kinds import shown_name
from hermesops.users.messaging.messengers.commands import command_of
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

SECRET_HEADER = "x-telegram-bot-api-secret-token"  # noqa: S105 - a header's name
WEBHOOK_PATH = "/webhooks/telegram"
"""Path of the users' API that takes updates."""

LARGEST = 1 << 20
"""Bytes of an update; Telegram's longest text has 4,096 units."""

_LONGEST_TEXT = 16_384
_LONGEST_NAME = 64
_PRESS = re.compile(r"[A-Za-z0-9_-]{1,64}")
_GONE = frozenset({"kicked", "left"})
_FILE = re.compile(r"[A-Za-z0-9_-]{1,256}")
_FILES: Mapping[str, tuple[FileKind, str]] = {
    "document": (FileKind.DOCUMENT, ""),
    "voice": (FileKind.VOICE, "audio/ogg"),
    "audio": (FileKind.AUDIO, ""),
    "video": (FileKind.VIDEO, "video/mp4"),
    "video_note": (FileKind.VIDEO, "video/mp4"),
}
"""Kinds of files by the field of a message, and the type of those that have none of their own."""

_LONGEST_TYPE = 128


def is_telegrams(header: str, secrets: Sequence[str]) -> bool:
    """Whether a request has the secret that Telegram was told with the webhook's address: two while one is changed."""
    given = header.encode(errors="replace")
    return any(hmac.compare_digest(given, secret.encode()) for secret in secrets if secret)


def read(body: bytes) -> Update | None:
    """Read an update; ``None`` for one that is no message of a person to the bot.

    Raises:
        MalformedJSONError: It is no object of JSON.
    """
    content = strict_json.parse_object(body, largest=LARGEST)
    number = content.get("update_id")
    if not isinstance(number, int) or isinstance(number, bool):
        return None
    if isinstance(message := content.get("message"), dict):
        return _message(number, message)
    if isinstance(change := content.get("my_chat_member"), dict):
        return _membership(number, change)
    if isinstance(press := content.get("callback_query"), dict):
        return _press(number, press)
    return None


def _press(number: int, press: Mapping[str, Any]) -> Update | None:
    """A button below a request for approval, as the command that it stands for."""
    message, command = press.get("message"), command_of(press.get("data"))
    author = _author({**press, "chat": message.get("chat")}) if isinstance(message, dict) else None
    if author is None or not command:
        return None
    account, display = author
    kind = IncomingKind.MESSAGE
    return Update(Messenger.TELEGRAM, str(number), kind, account, account, text=command, display=display)


def reply_to(body: bytes) -> Mapping[str, Any]:
    """What is asked of Telegram in the answer to an update: that it shows a button as pressed. Empty for nothing.

    Source: Telegram Bot API, "Making requests when getting updates", ``answerCallbackQuery``.
    """
    press = strict_json.parse_object(body, largest=LARGEST).get("callback_query")
    id_ = press.get("id") if isinstance(press, dict) else None
    is_id = isinstance(id_, str) and _PRESS.fullmatch(id_) is not None
    return {"method": "answerCallbackQuery", "callback_query_id": id_} if is_id else {}


def _message(number: int, message: Mapping[str, Any]) -> Update | None:
    author = _author(message)
    if author is None:
        return None
    account, display = author
    text = message.get("text", message.get("caption"))
    return Update(
        messenger=Messenger.TELEGRAM,
        vendor_id=str(number),
        kind=IncomingKind.MESSAGE,
        account=account,
        vendor_chat=account,
        text=text[:_LONGEST_TEXT] if isinstance(text, str) else "",
        display=display,
        files=_files(message),
    )


def _files(message: Mapping[str, Any]) -> tuple[UserFile, ...]:
    """The file of a message: Telegram sends several as a message each. A photo comes in sizes, the largest last."""
    sizes = message.get("photo")
    if isinstance(sizes, list) and sizes and isinstance(sizes[-1], dict):
        return _file(sizes[-1], FileKind.PHOTO, "image/jpeg")
    for key, (kind, media_type) in _FILES.items():
        if isinstance(content := message.get(key), dict):
            return _file(content, kind, media_type)
    return ()


def _file(content: Mapping[str, Any], kind: FileKind, otherwise: str) -> tuple[UserFile, ...]:
    id_, size = content.get("file_id"), content.get("file_size")
    if not isinstance(id_, str) or not _FILE.fullmatch(id_):
        return ()
    media_type = one_line(str(content.get("mime_type") or otherwise), longest=_LONGEST_TYPE)
    name = shown_name(str(content.get("file_name") or ""), kind, media_type)
    is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
    return (UserFile(kind, id_, name, media_type, size if is_size and size else 0),)


def _membership(number: int, change: Mapping[str, Any]) -> Update | None:
    author, member = _author(change), change.get("new_chat_member")
    if author is None or not isinstance(member, dict):
        return None
    account, display = author
    kind = IncomingKind.BLOCKED if member.get("status") in _GONE else IncomingKind.UNBLOCKED
    return Update(Messenger.TELEGRAM, str(number), kind, account, account, display=display)


def _author(content: Mapping[str, Any]) -> tuple[str, str] | None:
    """Id and name of the person in whose chat with the bot something happened; ``None`` for bots and for groups."""
    author, chat = content.get("from"), content.get("chat")
    if not isinstance(author, dict) or not isinstance(chat, dict):
        return None
    number = author.get("id")
    if not isinstance(number, int) or isinstance(number, bool) or number <= 0:
        return None
    if chat.get("type") != "private" or chat.get("id") != number or author.get("is_bot") is not False:
        return None
    return str(number), one_line(str(author.get("first_name") or ""), longest=_LONGEST_NAME)
