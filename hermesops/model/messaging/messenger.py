"""Messengers that users write to their agents in, and the limits of each."""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Literal


class Messenger(StrEnum):
    """A vendor of chats, with one bot of ours for all users."""

    TELEGRAM = "telegram"
    DISCORD = "discord"
    SLACK = "slack"
    WHATSAPP = "whatsapp"


Unit = Literal["utf16", "chars"]
"""How a messenger counts the length of a text: code units of UTF-16, or code points."""


@dataclass(frozen=True)
class TextLimit:
    """The longest text of one message.

    Attributes:
        most: Units of one message.
        unit: How they are counted.
    """

    most: int
    unit: Unit

    def length(self, text: str) -> int:
        """The length of a text in this limit's units."""
        return len(text) if self.unit == "chars" else len(text.encode("utf-16-le")) // 2


LIMITS = {
    Messenger.TELEGRAM: TextLimit(4096, "utf16"),
    Messenger.DISCORD: TextLimit(2000, "utf16"),
    Messenger.SLACK: TextLimit(4000, "chars"),
    Messenger.WHATSAPP: TextLimit(4096, "utf16"),
}
"""Sources: Telegram Bot API, ``sendMessage``; Slack, "Truncating content"; Discord, "Create Message"; WhatsApp Cloud
API, "Text messages". The unit of the last two is not documented, so that the stricter one counts.
"""

WINDOWS = {Messenger.WHATSAPP: timedelta(hours=24)}
"""How long after a user's message a bot may write, where that is limited.

Source: WhatsApp Cloud API, "Customer service windows".
"""

PREFIXES = {
    Messenger.TELEGRAM: "tg",
    Messenger.DISCORD: "dc",
    Messenger.SLACK: "sl",
    Messenger.WHATSAPP: "wa",
}
"""First part of a chat's name towards agents: hermes-agent parses targets of jobs at colons, so that none is in it."""


def chat_name(messenger: Messenger, vendor_chat: str) -> str:
    """The name of a chat towards agents. Pure."""
    return f"{PREFIXES[messenger]}.{vendor_chat}"


def parse_chat_name(name: str) -> tuple[Messenger, str] | None:
    """The messenger and its chat of a name that an agent sent; ``None`` for any other text. Pure."""
    prefix, dot, vendor_chat = name.partition(".")
    messenger = next((each for each, short in PREFIXES.items() if short == prefix), None)
    return (messenger, vendor_chat) if messenger and dot and vendor_chat else None
