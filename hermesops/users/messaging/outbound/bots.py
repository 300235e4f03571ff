"""The bots by which users write to their agents, each with its messenger's limits."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, UsageError
from hermesops.model.messaging.message import Outgoing
from hermesops.model.messaging.messenger import Messenger
from hermesops.settings.sections import MessengerSettings
from hermesops.users.messaging.files.service import Fetch
from hermesops.users.messaging.outbound.budget import Pace
from hermesops.users.messaging.outbound.delivery import Delivery
from hermesops.users.messaging.outbound.typing_signs import PACE, SLOW_PACE, Show
from hermesops.users.messaging.secrets import discord_bot, slack_bot, telegram_bot, whatsapp_bot


@dataclass(frozen=True)
class Bot:
    """A messenger's bot.

    Attributes:
        pace: Below what the messenger documents.
        send: Sends a part once and says what became of it.
        file: Reads a file of a person's message.
        show_typing: Shows in a chat that an answer is being written; ``None`` where the messenger has no sign for bots.
        typing_pace: How often, within what the messenger documents.
    """

    messenger: Messenger
    pace: Pace
    send: Callable[[Outgoing], Awaitable[Delivery]]
    file: Fetch
    show_typing: Show | None = None
    typing_pace: Pace = PACE


TELEGRAM_PACE = Pace(chat_s=1.1, a_second=20)
"""Telegram documents a message a second to a chat, some 30 a second in all; signs of typing take some of these.

The tenth is for messages that take longer to arrive than the next one does.
"""

SLACK_PACE = Pace(chat_s=1.1, a_second=5)
"""Slack documents a message a second to a channel, and several hundred a minute to a workspace."""

WHATSAPP_PACE = Pace(chat_s=6.5, a_second=40, burst=10)
"""WhatsApp documents a message to a person in six seconds, of which up to 45 may come at once, and 80 a second."""

DISCORD_PACE = Pace(chat_s=1.05, a_second=30, burst=4)
"""Discord tells its limits in its answers, some five messages to a chat in five seconds, and fifty requests in all."""


def bots_of(settings: MessengerSettings, secrets: Secrets) -> tuple[Bot, ...]:
    """The bots that are set.

    Raises:
        UsageError: There is none.
    """
    bots: list[Bot] = []
    if settings.telegram_bot:
        telegram = telegram_bot(settings, secrets)
        bots.append(Bot(Messenger.TELEGRAM, TELEGRAM_PACE, telegram.send, telegram.file, telegram.show_typing))
    if settings.slack_app:
        slack = slack_bot(settings, secrets)
        bots.append(Bot(Messenger.SLACK, SLACK_PACE, slack.send, slack.file))
    if settings.whatsapp_number:
        whatsapp = whatsapp_bot(settings, secrets)
        show, pace = whatsapp.show_typing, SLOW_PACE
        bots.append(Bot(Messenger.WHATSAPP, WHATSAPP_PACE, whatsapp.send, whatsapp.file, show, pace))
    if settings.discord_app:
        discord = discord_bot(settings, secrets)
        bots.append(Bot(Messenger.DISCORD, DISCORD_PACE, discord.send, discord.file, discord.show_typing))
    if not bots:
        hint = Hint(("settings", "set", "messengers.telegram_bot", "NAME"))
        names = "messengers.telegram_bot, messengers.slack_app, messengers.whatsapp_number or messengers.discord_app"
        raise UsageError(f"missing {names}, the bot by which users write to agents", hint=hint)
    return tuple(bots)
