"""Reads messages of Discord's, as its gateway and its HTTP API have them. Pure.

Source: Discord, "Message Object", "Attachment Object", "Message Create"; ids are snowflakes, numbers that grow with
time.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from hermesops.model.messaging.files import MOST, FileKind, UserFile
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.files.kinds import shown_name
from hermesops.users.messaging.messengers.commands import with_slash
from hermesops.wire.foreign_text import one_line

SNOWFLAKE = re.compile(r"[0-9]{5,20}")

_LONGEST_TEXT = 16_384
_LONGEST_NAME = 64
_BY_PEOPLE = frozenset({0, 19})
"""Types of messages that a person writes: plain ones and replies."""

_KINDS: Mapping[str, FileKind] = {"image/": FileKind.PHOTO, "audio/": FileKind.AUDIO, "video/": FileKind.VIDEO}
_LONGEST_TYPE = 128


def read(message: Mapping[str, Any]) -> Update | None:
    """Read a message; ``None`` for one that is no message of a person in their own chat with the bot."""
    author = message.get("author")
    if not isinstance(author, dict) or author.get("bot") or message.get("webhook_id") or message.get("guild_id"):
        return None
    id_, chat = matching(SNOWFLAKE, message.get("id")), matching(SNOWFLAKE, message.get("channel_id"))
    person, kind = matching(SNOWFLAKE, author.get("id")), message.get("type", 0)
    if not (id_ and chat and person) or not isinstance(kind, int) or kind not in _BY_PEOPLE:
        return None
    text = message.get("content")
    return Update(
        messenger=Messenger.DISCORD,
        vendor_id=id_,
        kind=IncomingKind.MESSAGE,
        account=person,
        vendor_chat=chat,
        text=with_slash(text[:_LONGEST_TEXT].strip()) if isinstance(text, str) else "",
        display=name_of(author),
        files=tuple(_files(id_, message.get("attachments"))),
    )


def _files(message_id: str, values: object) -> Iterator[UserFile]:
    """Files of a message. Their addresses run out, so that the message is what names them."""
    for value in (values if isinstance(values, list) else [])[:MOST]:
        id_ = matching(SNOWFLAKE, value.get("id")) if isinstance(value, dict) else ""
        if not id_:
            continue
        media_type, size = one_line(str(value.get("content_type") or ""), longest=_LONGEST_TYPE), value.get("size")
        kind = next((kind for word, kind in _KINDS.items() if media_type.startswith(word)), FileKind.DOCUMENT)
        is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
        name = shown_name(str(value.get("filename") or ""), kind, media_type)
        yield UserFile(kind, f"{message_id}/{id_}", name, media_type, size if is_size else 0)


def name_of(author: Mapping[str, Any]) -> str:
    """A person's name, as Discord shows it."""
    return one_line(str(author.get("global_name") or author.get("username") or ""), longest=_LONGEST_NAME)


def matching(pattern: re.Pattern[str], value: object) -> str:
    """A text of a pattern; empty for anything else."""
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""
