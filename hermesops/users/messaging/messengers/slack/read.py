"""Verifies and reads events and interactions of Slack's. Pure.

Source: Slack, "Verifying requests from Slack", "The Events API" (``url_verification``, ``event_callback``, retries),
"message.im", "block_actions payload", "File object", "Formatting text for app surfaces".
"""

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from hermesops.model.messaging.files import MOST, FileKind, UserFile
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.files.kinds import shown_name
from hermesops.users.messaging.messengers.commands import command_of, with_slash
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

SIGNATURE_HEADER = "x-slack-signature"
TIMESTAMP_HEADER = "x-slack-request-timestamp"
LARGEST = 1 << 20
"""Bytes of an event; the longest text of a message has 40,000 characters."""

TOLERANCE_S = 300
"""Seconds that an event's time may be off, both ways."""

_LONGEST_TEXT = 16_384
_EVENT = re.compile(r"Ev[A-Za-z0-9]{1,62}")
_TEAM = re.compile(r"T[A-Z0-9]{1,30}")
_USER = re.compile(r"[UW][A-Z0-9]{1,30}")
_DIRECT = re.compile(r"D[A-Z0-9]{1,62}")
_CHALLENGE = re.compile(r"[\x21-\x7e]{1,256}")
_TIME = re.compile(r"[0-9]{1,12}")
_STAMP = re.compile(r"[0-9]{1,12}\.[0-9]{1,9}")
_FORM, _MOST_FIELDS = b"payload=", 8
_FILE = re.compile(r"F[A-Z0-9]{1,30}")
_KINDS: Mapping[str, FileKind] = {"image/": FileKind.PHOTO, "audio/": FileKind.AUDIO, "video/": FileKind.VIDEO}
_LONGEST_TYPE = 128
_MARKED = re.compile(r"<(?P<target>[^<>|]{1,2000})(?:\|(?P<label>[^<>]{0,2000}))?>")
_BY_PEOPLE = frozenset({None, "file_share"})
"""Subtypes of messages that a person writes; others are changes, deletions and notices."""


@dataclass(frozen=True)
class Challenge:
    """Slack asks whether the webhook's address is ours.

    Attributes:
        text: To be answered as it is.
    """

    text: str


def is_slacks(body: bytes, timestamp: str, signature: str, secrets: Sequence[str], now: float) -> bool:
    """Whether Slack signed a request within five minutes: by one of two secrets while it is changed.

    Args:
        now: Seconds since 1970.
    """
    if not _TIME.fullmatch(timestamp) or abs(now - int(timestamp)) > TOLERANCE_S:
        return False
    signed = b"v0:" + timestamp.encode() + b":" + body
    given = signature.encode(errors="replace")
    wanted = [f"v0={hmac.new(secret.encode(), signed, sha256).hexdigest()}" for secret in secrets if secret]
    return any(hmac.compare_digest(given, each.encode()) for each in wanted)


def read(body: bytes) -> Update | Challenge | None:
    """Read an event or an interaction; ``None`` for one that is no message, or button, of a person to the bot.

    Raises:
        MalformedJSONError: It is no object of JSON.
    """
    if body.startswith(_FORM):
        payload = _payload(body)
        return _press(strict_json.parse_object(payload, largest=LARGEST)) if payload else None
    content = strict_json.parse_object(body, largest=LARGEST)
    event = content.get("event")
    if content.get("type") == "url_verification":
        text = _matching(_CHALLENGE, content.get("challenge"))
        return Challenge(text) if text else None
    if content.get("type") != "event_callback" or not isinstance(event, dict):
        return None
    return _message(_matching(_EVENT, content.get("event_id")), _matching(_TEAM, content.get("team_id")), event)


def _payload(body: bytes) -> str:
    """The field ``payload`` of a form; empty where there is none, or the form has more fields than Slack sends."""
    try:
        fields = parse_qs(body.decode("ascii", "replace"), max_num_fields=_MOST_FIELDS)
    except ValueError:
        return ""
    return next(iter(fields.get("payload", ())), "")


def _press(content: Mapping[str, Any]) -> Update | None:
    """A button below a request for approval, pressed in the person's own chat with the bot, as its command."""
    user, channel, actions = content.get("user"), content.get("channel"), content.get("actions")
    is_press = content.get("type") == "block_actions" and isinstance(actions, list) and len(actions) == 1
    if not (is_press and isinstance(user, dict) and isinstance(channel, dict) and isinstance(actions, list)):
        return None
    action = actions[0] if isinstance(actions[0], dict) else {}
    person, team = _matching(_USER, user.get("id")), _matching(_TEAM, user.get("team_id"))
    chat, stamp = _matching(_DIRECT, channel.get("id")), _matching(_STAMP, action.get("action_ts"))
    command = command_of(action.get("action_id"))
    if not (person and team and chat and stamp and command):
        return None
    ids = (Messenger.SLACK, f"action/{chat}/{stamp}", IncomingKind.MESSAGE, f"{team}-{person}", chat)
    return Update(*ids, text=command, display=person)


def _message(event_id: str, team: str, event: Mapping[str, Any]) -> Update | None:
    """A person's message in their own chat with the bot; the ids of people are unique within their workspace."""
    person, channel = _matching(_USER, event.get("user")), _matching(_DIRECT, event.get("channel"))
    is_message = event.get("type") == "message" and event.get("channel_type") == "im"
    subtype = event.get("subtype")
    is_by_person = (subtype is None or isinstance(subtype, str)) and subtype in _BY_PEOPLE
    is_by_bot = bool(event.get("bot_id") or event.get("bot_profile"))
    if not (event_id and team and person and channel and is_message and is_by_person) or is_by_bot:
        return None
    text = event.get("text")
    return Update(
        messenger=Messenger.SLACK,
        vendor_id=event_id,
        kind=IncomingKind.MESSAGE,
        account=f"{team}-{person}",
        vendor_chat=channel,
        text=text_of(text[:_LONGEST_TEXT]) if isinstance(text, str) else "",
        display=person,
        files=tuple(_files(event.get("files"))),
    )


def _files(values: object) -> Iterator[UserFile]:
    """Files that Slack has; what is kept elsewhere is a link."""
    for value in (values if isinstance(values, list) else [])[:MOST]:
        id_ = _matching(_FILE, value.get("id")) if isinstance(value, dict) else ""
        if not id_ or value.get("mode") in {"external", "tombstone", "hidden_by_limit"}:
            continue
        media_type, size = one_line(str(value.get("mimetype") or ""), longest=_LONGEST_TYPE), value.get("size")
        kind = next((kind for word, kind in _KINDS.items() if media_type.startswith(word)), FileKind.DOCUMENT)
        is_size = isinstance(size, int) and not isinstance(size, bool) and size > 0
        name = shown_name(str(value.get("name") or ""), kind, media_type)
        yield UserFile(kind, id_, name, media_type, size if is_size else 0)


def text_of(written: str) -> str:
    """What a person wrote, without Slack's marks.

    Slack keeps words that begin with a slash to itself, so that ``!`` and ``link CODE`` stand for commands.
    """
    text = _MARKED.sub(_shown, written).replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&").strip()
    return with_slash(text)


def _shown(match: re.Match[str]) -> str:
    """A link's address, with its text where that differs; what it mentions for anything else."""
    target, label = match["target"], match["label"] or ""
    if target[0] in "@#!":
        return label or target
    return f"{label} ({target})" if label and label not in target else target


def _matching(pattern: re.Pattern[str], value: object) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""
