"""Writes styled text with WhatsApp's marks. Pure.

Source: WhatsApp's help, "How to format your messages": it has no escape, so that a word of an agent between asterisks
is bold. A link has no text of its own: its address stands behind it.
"""

from hermesops.model.messaging.messenger import LIMITS, Messenger
from hermesops.users.messaging.texts import marked_text
from hermesops.users.messaging.texts.marked_text import Marks
from hermesops.users.messaging.texts.styled_text import StyledText

_LIMIT = LIMITS[Messenger.WHATSAPP]


def _link(address: str, text: str) -> str:
    shown = " ".join(text.split())
    return address if not shown or shown == address else f"{shown} ({address})"


_MARKS = Marks(bold="*", italic="_", strike="~", escape=str, link=_link)


def write(text: StyledText) -> str:
    """A part as it is sent."""
    return marked_text.write(text, _MARKS)


def measure(text: StyledText) -> int:
    """The length of a part as it is sent, with its marks."""
    return _LIMIT.length(write(text))
