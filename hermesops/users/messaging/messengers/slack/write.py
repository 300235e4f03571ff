"""Writes styled text as Slack's mrkdwn. Pure.

Source: Slack, "Formatting text for app surfaces": ``&``, ``<`` and ``>`` are escaped, so that no text of an agent can
mention a person, a channel or everybody; links are ``<ADDRESS|TEXT>``.
"""

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


def write(text: StyledText) -> str:
    """A part as it is sent."""
    return marked_text.write(text, _MARKS)


def measure(text: StyledText) -> int:
    """The length of a part as it is sent, with what is escaped."""
    return len(write(text))
