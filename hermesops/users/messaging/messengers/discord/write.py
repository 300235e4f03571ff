"""Writes styled text as Discord's Markdown. Pure.

Source: Discord's help, "Markdown Text 101"; "Message Formatting": what stands between ``<`` and ``>`` may mention
somebody.
"""

import re

from hermesops.model.messaging.messenger import LIMITS, Messenger
from hermesops.users.messaging.texts import marked_text
from hermesops.users.messaging.texts.marked_text import Marks
from hermesops.users.messaging.texts.styled_text import StyledText

_LIMIT = LIMITS[Messenger.DISCORD]
_MARK = re.compile(r"[\\*_~`|<\[\]]|^(?:#{1,3}|>{1,3}|-#)(?=\s)", re.MULTILINE)
_CLOSING = str.maketrans({"(": "%28", ")": "%29", " ": "%20"})


def _escaped(text: str) -> str:
    """A text that Discord shows as it is."""
    return _MARK.sub(lambda match: f"\\{match[0]}", text)


def _link(address: str, text: str) -> str:
    target = address.translate(_CLOSING)
    shown = " ".join(text.split())
    return f"<{target}>" if not shown or shown == _escaped(address) else f"[{shown}](<{target}>)"


_MARKS = Marks(bold="**", italic="*", strike="~~", escape=_escaped, escape_code=str, link=_link, has_languages=True)


def write(text: StyledText) -> str:
    """A part as it is sent."""
    return marked_text.write(text, _MARKS)


def measure(text: StyledText) -> int:
    """The length of a part as it is sent, with its marks and what is escaped."""
    return _LIMIT.length(write(text))
