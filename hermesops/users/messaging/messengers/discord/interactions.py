"""Verifies and reads interactions of Discord's: commands and buttons in people's chats with the bot. Pure.

Source: Discord, "Receiving and Responding to Interactions", "Setting Up an Endpoint": Discord sends wrong signatures at
times, and takes the address away where they are let through.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from hermesops.model.messaging.message import IncomingKind, Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.messengers.commands import command_of
from hermesops.users.messaging.messengers.discord.read import SNOWFLAKE, matching, name_of
from hermesops.wire import strict_json

SIGNATURE_HEADER = "x-signature-ed25519"
TIMESTAMP_HEADER = "x-signature-timestamp"
WEBHOOK_PATH = "/webhooks/discord"
"""Path of the users' API that takes interactions."""

LARGEST = 1 << 20
TOLERANCE_S = 300
"""Seconds that an interaction's time may be off, both ways."""

_TIME = re.compile(r"[0-9]{1,12}")
_KEY = re.compile(r"[0-9a-f]{64}")
_SIGNATURE = re.compile(r"[0-9a-fA-F]{128}")
_WORD = re.compile(r"[A-Za-z0-9]{1,32}")
_PING, _COMMAND, _BUTTON = 1, 2, 3
_IN_OWN_CHAT = 1
_EPHEMERAL = 64

COMMANDS: tuple[Mapping[str, Any], ...] = (
    {
        "name": "link",
        "description": "Connect this chat with your agent",
        "options": [{"type": 3, "name": "code", "description": "The code of your chat page", "required": True}],
    },
    {"name": "unlink", "description": "Disconnect this chat from your agent"},
    {"name": "approve", "description": "Let your agent run what it asks for"},
    {"name": "deny", "description": "Forbid your agent what it asks for"},
    {"name": "stop", "description": "Stop your agent's work"},
)
"""Commands of the bot, for chats with it alone."""

PONG: Mapping[str, Any] = {"type": 1}
RECEIVED = "Received."
ELSEWHERE = "Write to me in a direct message."


@dataclass(frozen=True)
class Interaction:
    """An interaction that Discord signed.

    Attributes:
        answer: To be given within three seconds.
        update: ``None`` where nothing is to be kept.
    """

    answer: Mapping[str, Any] = field(repr=False)
    update: Update | None = None


def is_discords(body: bytes, timestamp: str, signature: str, key: str, now: float) -> bool:
    """Whether Discord signed a request within five minutes.

    Args:
        key: The application's public key, 64 hexadecimal digits.
        now: Seconds since 1970.
    """
    is_recent = _TIME.fullmatch(timestamp) is not None and abs(now - int(timestamp)) <= TOLERANCE_S
    if not is_recent or not _SIGNATURE.fullmatch(signature) or not _KEY.fullmatch(key):
        return False
    try:
        Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(
            bytes.fromhex(signature), timestamp.encode() + body
        )
    except (InvalidSignature, ValueError):
        return False
    return True


def read(body: bytes) -> Interaction:
    """Read an interaction: a command in a person's own chat with the bot is kept, anything else is answered alone.

    Raises:
        MalformedJSONError: It is no object of JSON.
    """
    content = strict_json.parse_object(body, largest=LARGEST)
    if content.get("type") == _PING:
        return Interaction(PONG)
    update = _update(content)
    return Interaction(_said(RECEIVED if update else ELSEWHERE), update)


def _update(content: Mapping[str, Any]) -> Update | None:
    user, data = content.get("user"), content.get("data")
    is_own = content.get("context") == _IN_OWN_CHAT and not content.get("guild_id")
    if (
        content.get("type") not in (_COMMAND, _BUTTON)
        or not is_own
        or not isinstance(user, dict)
        or not isinstance(data, dict)
    ):
        return None
    id_, chat = matching(SNOWFLAKE, content.get("id")), matching(SNOWFLAKE, content.get("channel_id"))
    person, text = matching(SNOWFLAKE, user.get("id")), _text_of(data)
    if not (id_ and chat and person and text):
        return None
    return Update(
        *(Messenger.DISCORD, f"interaction/{id_}", IncomingKind.MESSAGE, person, chat), text=text, display=name_of(user)
    )


def _text_of(data: Mapping[str, Any]) -> str:
    """A command, or a button, as people write it elsewhere; empty for one that is none of ours."""
    if "custom_id" in data:
        return command_of(data["custom_id"])
    name, options = data.get("name"), data.get("options")
    if name not in [command["name"] for command in COMMANDS]:
        return ""
    first = options[0] if isinstance(options, list) and options else {}
    value = matching(_WORD, first.get("value")) if isinstance(first, dict) else ""
    return f"/{name} {value}" if value else f"/{name}"


def _said(text: str) -> Mapping[str, Any]:
    data = {"content": text, "flags": _EPHEMERAL, "allowed_mentions": {"parse": []}}
    return {"type": 4, "data": data}
