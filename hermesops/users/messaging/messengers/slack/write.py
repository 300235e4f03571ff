"""Writes styled text as Slack's mrkdwn. Pure.

Source: Slack, "Formatting text for app surfaces": ``&``, ``<`` and ``>`` are escaped, so that no text of an agent can
mention a person, a channel or everybody; links are ``<ADDRESS|TEXT>``.
"""

import re

from hermesops.users.messaging.texts import marked_text
from hermesops.users.messaging.texts.marked_text import Marks
from hermesops.users.messaging.texts.styled_text import StyledText


def escape(text: str) -> str:
    """A text without marks of Slack's."""
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _link(address: str, text: str) -> str:
    target = escape(address).replace("|", "%7C")
    return f"<{target}|{' '.join(text.split()) or target}>"


_MARKS = Marks(bold="*", italic="_", strike="~", escape=escape, link=_link)


_COMMAND = re.compile(r"(?<![\w/.])/(approve|deny)(?![\w/])")


def write(text: StyledText) -> str:
    """A part as it is sent.

    A request for approval names ``/approve`` and ``/deny``, which Slack keeps to itself: it names ``!approve`` here.
    """
    written = marked_text.write(text, _MARKS)
    is_request = set(_COMMAND.findall(written)) == {"approve", "deny"}
    return _COMMAND.sub(r"!\1", written) if is_request else written


def measure(text: StyledText) -> int:
    """The length of a part as it is sent, with what is escaped."""
    return len(write(text))
