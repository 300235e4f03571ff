"""Texts to users in the parts that their messenger takes, each as its bot sends it. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from hermesops.model.messaging.messenger import LIMITS, Messenger
from hermesops.users.messaging.messengers.discord import write as discord
from hermesops.users.messaging.messengers.slack import write as slack
from hermesops.users.messaging.messengers.telegram import write as telegram
from hermesops.users.messaging.messengers.whatsapp import write as whatsapp
from hermesops.users.messaging.texts import markdown
from hermesops.users.messaging.texts.splitting import Measure, split
from hermesops.users.messaging.texts.styled_text import StyledText


@dataclass(frozen=True)
class Writing:
    """How a messenger's parts are written.

    Attributes:
        write: A part as its row keeps it, and the messenger's bot sends it.
        measure: Its length as the messenger counts it.
    """

    write: Callable[[StyledText], str]
    measure: Measure


WRITINGS = {
    Messenger.TELEGRAM: Writing(telegram.write, telegram.measure),
    Messenger.SLACK: Writing(slack.write, slack.measure),
    Messenger.WHATSAPP: Writing(whatsapp.write, whatsapp.measure),
    Messenger.DISCORD: Writing(discord.write, discord.measure),
}
"""Of the messengers that have a bot."""


def parts_of(messenger: Messenger, text: str) -> tuple[str, ...]:
    """The parts of a text of an agent, in Markdown; none for white space."""
    return _parts(messenger, markdown.read(text))


def line_of(messenger: Messenger, text: str) -> tuple[str, ...]:
    """The parts of a line of the platform's, which has no styles."""
    return _parts(messenger, markdown.plain(text))


def _parts(messenger: Messenger, text: StyledText) -> tuple[str, ...]:
    writing = WRITINGS[messenger]
    parts = split(text, LIMITS[messenger], writing.measure)
    return tuple(writing.write(part) for part in parts if part.text.strip())
