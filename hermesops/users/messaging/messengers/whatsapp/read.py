"""Verifies and reads what WhatsApp reports: messages of people, and messages to them that failed. Pure.

A person is known by a keyed digest of their id, so that no table has a telephone number in plain text. The id is the
business-scoped one where WhatsApp gives it: who gets a number that somebody else had is another person.

Source: WhatsApp Business Platform, "messages webhook reference", "Status messages webhook reference", "Business-scoped
user IDs", "Create a webhook endpoint" (signatures, verification); a body has at most 3 MB and a thousand reports.
"""

import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from itertools import islice
from typing import Any

from hermesops.model.messaging.files import FileKind, UserFile
from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.files.kinds import shown_name
from hermesops.users.messaging.messengers.commands import command_of, with_slash
from hermesops.wire import strict_json
from hermesops.wire.foreign_text import one_line

SIGNATURE_HEADER = "x-hub-signature-256"
WEBHOOK_PATH = "/webhooks/whatsapp"
"""Path of the users' API that takes reports."""

LARGEST = 3 << 20
"""Bytes of a body."""

_MOST = 1_000
_LONGEST_TEXT = 16_384
_LONGEST_NAME = 64
_PERSON_DIGITS = 40
_NUMBER = re.compile(r"[0-9]{5,20}")
_USER = re.compile(r"[A-Z]{2}\.[A-Za-z0-9.]{1,128}")
_MESSAGE = re.compile(r"wamid\.[A-Za-z0-9+/=_-]{1,112}")
_TIME = re.compile(r"[0-9]{1,11}")
_OURS = re.compile(r"out-(?P<number>[0-9]{1,18})")
_CODE = re.compile(r"[\x21-\x7e]{1,128}")
_BY_PEOPLE = frozenset(
    ("text", "image", "audio", "video", "document", "sticker", "location", "contacts", "button", "interactive")
)
"""Types of messages that a person writes; others are reactions, changes of numbers and notices."""

_FILE = re.compile(r"[0-9]{1,32}")
_KINDS: Mapping[str, FileKind] = {
    "image": FileKind.PHOTO,
    "audio": FileKind.AUDIO,
    "video": FileKind.VIDEO,
    "document": FileKind.DOCUMENT,
}
_LONGEST_TYPE = 128


@dataclass(frozen=True)
class Reader:
    """Reads the reports of one number.

    Attributes:
        phone: Id of the platform's number at Meta: other numbers of the same app are not ours to answer.
        key: By which the digests of people are made.
    """

    phone: str
    key: bytes = field(repr=False)

    def read(self, body: bytes) -> tuple[Update, ...]:
        """Read a body's reports; none that is no message of a person to the number, and no failed message.

        Raises:
            MalformedJSONError: It is no object of JSON.
        """
        content = strict_json.parse_object(body, largest=LARGEST)
        if content.get("object") != "whatsapp_business_account":
            return ()
        updates = (update for value in self._values(content) for update in self._of_value(value))
        return tuple(islice(updates, _MOST))

    def person(self, id_: str) -> str:
        """The digest of a person's id."""
        return hmac.new(self.key, f"whatsapp/{id_}".encode(), sha256).hexdigest()[:_PERSON_DIGITS]

    def _values(self, content: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        for entry in _objects(content.get("entry")):
            for change in _objects(entry.get("changes")):
                value = change.get("value")
                if change.get("field") == "messages" and isinstance(value, dict) and self._is_ours(value):
                    yield value

    def _is_ours(self, value: Mapping[str, Any]) -> bool:
        metadata = value.get("metadata")
        return isinstance(metadata, dict) and metadata.get("phone_number_id") == self.phone

    def _of_value(self, value: Mapping[str, Any]) -> Iterator[Update]:
        names = dict(_names(value.get("contacts")))
        for message in _objects(value.get("messages")):
            if update := self._message(message, names):
                yield update
        for status in _objects(value.get("statuses")):
            if update := _failure(status):
                yield update

    def _message(self, message: Mapping[str, Any], names: Mapping[str, str]) -> Update | None:
        id_ = _matching(_MESSAGE, message.get("id"))
        number, user = _matching(_NUMBER, message.get("from")), _matching(_USER, message.get("from_user_id"))
        kind, stamp = message.get("type"), _matching(_TIME, message.get("timestamp"))
        if not (id_ and (number or user) and stamp) or message.get("group_id"):
            return None
        if not isinstance(kind, str) or kind not in _BY_PEOPLE:
            return None
        person = self.person(user or number)
        return Update(
            messenger=Messenger.WHATSAPP,
            vendor_id=id_,
            kind=IncomingKind.MESSAGE,
            account=person,
            vendor_chat=person,
            text=with_slash(_text_of(message)[:_LONGEST_TEXT].strip()),
            display=names.get(user) or names.get(number) or "",
            address=number or user,
            written_at=datetime.fromtimestamp(int(stamp), UTC),
            files=_files(message, kind),
        )


def is_whatsapps(body: bytes, signature: str, secrets: Sequence[str]) -> bool:
    """Whether Meta signed a body by the app's secret: one of two while it is changed."""
    given = signature.encode(errors="replace")
    wanted = [f"sha256={hmac.new(secret.encode(), body, sha256).hexdigest()}" for secret in secrets if secret]
    return any(hmac.compare_digest(given, each.encode()) for each in wanted)


def verify_token(secret: str) -> str:
    """The token by which Meta asks whether an address is ours: derived, so that nobody has to keep one more secret."""
    return hmac.new(secret.encode(), b"hermesops/whatsapp/verify", sha256).hexdigest()


def challenge_of(query: Mapping[str, str], secrets: Sequence[str]) -> str | None:
    """The text to answer to Meta's question whether an address is ours; ``None`` for anybody else's."""
    given, challenge = query.get("hub.verify_token", "").encode(errors="replace"), query.get("hub.challenge", "")
    tokens = [verify_token(secret).encode() for secret in secrets if secret]
    is_known = any(hmac.compare_digest(given, token) for token in tokens)
    is_harmless = _CODE.fullmatch(challenge) is not None
    return challenge if is_known and is_harmless and query.get("hub.mode") == "subscribe" else None


def _failure(status: Mapping[str, Any]) -> Update | None:
    """A message of ours that failed, by the number that was sent with it."""
    id_, ours = _matching(_MESSAGE, status.get("id")), _matching(_OURS, status.get("biz_opaque_callback_data"))
    if status.get("status") != "failed" or not id_ or not ours:
        return None
    codes = [error.get("code") for error in _objects(status.get("errors"))]
    code = next((each for each in codes if isinstance(each, int) and not isinstance(each, bool)), 0)
    text = f"{ours.removeprefix('out-')} {code}"
    return Update(Messenger.WHATSAPP, id_, IncomingKind.FAILED, "", "", text=text)


def _text_of(message: Mapping[str, Any]) -> str:
    pressed = message.get("interactive")
    reply = pressed.get("button_reply") if isinstance(pressed, dict) else None
    if isinstance(reply, dict):
        return command_of(reply.get("id"))
    content = message.get("text")
    body = content.get("body") if isinstance(content, dict) else None
    file = message.get(str(message.get("type")))
    caption = file.get("caption") if isinstance(file, dict) else None
    return next((each for each in (body, caption) if isinstance(each, str)), "")


def _files(message: Mapping[str, Any], key: str) -> tuple[UserFile, ...]:
    """The file of a message: WhatsApp sends several as a message each, and names no size."""
    content, kind = message.get(key), _KINDS.get(key)
    id_ = _matching(_FILE, content.get("id")) if isinstance(content, dict) else ""
    if kind is None or not id_ or not isinstance(content, dict):
        return ()
    media_type = one_line(str(content.get("mime_type") or ""), longest=_LONGEST_TYPE)
    kind = FileKind.VOICE if content.get("voice") is True else kind
    return (UserFile(kind, id_, shown_name(str(content.get("filename") or ""), kind, media_type), media_type),)


def _names(contacts: object) -> Iterator[tuple[str, str]]:
    """Names of people by their numbers and ids, as they call themselves."""
    for contact in _objects(contacts):
        profile = contact.get("profile")
        name = profile.get("name") if isinstance(profile, dict) else None
        for id_ in (contact.get("wa_id"), contact.get("user_id")):
            if isinstance(id_, str) and isinstance(name, str):
                yield id_, one_line(name, longest=_LONGEST_NAME)


def _objects(values: object) -> Iterator[Mapping[str, Any]]:
    yield from (value for value in (values if isinstance(values, list) else ()) if isinstance(value, dict))


def _matching(pattern: re.Pattern[str], value: object) -> str:
    return value if isinstance(value, str) and pattern.fullmatch(value) else ""
