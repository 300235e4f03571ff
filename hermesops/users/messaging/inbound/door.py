"""Takes what messengers report at the door: verified over its raw bytes, read, one row, and then it is ours.

Source: Telegram Bot API, "setWebhook": a report that was not answered with success is sent again. Slack, "The Events
API": it is sent again at most three times, within six minutes. WhatsApp Business Platform, "Webhooks": for seven days.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermesops.errors import RefusedError
from hermesops.model.messaging.message import Update
from hermesops.users.messaging.messengers.discord import interactions as discord
from hermesops.users.messaging.messengers.slack import read as slack
from hermesops.users.messaging.messengers.telegram import read as telegram
from hermesops.users.messaging.messengers.whatsapp import read as whatsapp
from hermesops.wire.strict_json import MalformedJSONError


class UnsignedReportError(RefusedError):
    """The request does not prove that its messenger sent it."""


@dataclass(frozen=True)
class TelegramDoor:
    """Takes updates of Telegram's.

    Attributes:
        secrets: Read for each update: two while one is changed.
        receive: Writes an update into a row, unless it is there already.
    """

    secrets: Callable[[], Sequence[str]]
    receive: Callable[[Update], bool]

    def take(self, body: bytes, header: str) -> Mapping[str, Any]:
        """Verify an update and keep it; one that concerns nobody is dropped.

        Args:
            header: ``X-Telegram-Bot-Api-Secret-Token``.

        Returns:
            What is asked of Telegram in the answer; empty for nothing.

        Raises:
            UnsignedReportError: See there.
            UnavailableError: The row could not be written: Telegram sends the update again.
        """
        if len(body) > telegram.LARGEST or not telegram.is_telegrams(header, self.secrets()):
            raise UnsignedReportError("the update does not come from Telegram")
        try:
            update, reply = telegram.read(body), telegram.reply_to(body)
        except MalformedJSONError:
            return {}  # signed, and nothing that is sent again would be better
        if update is not None:
            self.receive(update)
        return reply


@dataclass(frozen=True)
class SlackDoor:
    """Takes events of Slack's.

    Attributes:
        secrets: Signing secrets of the app, read for each event: two while one is changed.
        receive: Writes a message into a row, unless it is there already.
    """

    secrets: Callable[[], Sequence[str]]
    receive: Callable[[Update], bool]

    def take(self, body: bytes, timestamp: str, signature: str, now: float) -> str:
        """Verify an event and keep it; one that concerns nobody is dropped.

        Args:
            timestamp: ``X-Slack-Request-Timestamp``.
            signature: ``X-Slack-Signature``.
            now: Seconds since 1970.

        Returns:
            The text to answer, where Slack asks whether the address is ours; else empty.

        Raises:
            UnsignedReportError: See there.
            UnavailableError: The row could not be written: Slack sends the event again.
        """
        if len(body) > slack.LARGEST or not slack.is_slacks(body, timestamp, signature, self.secrets(), now):
            raise UnsignedReportError("the event does not come from Slack")
        try:
            report = slack.read(body)
        except MalformedJSONError:
            return ""  # as above
        if isinstance(report, Update):
            self.receive(report)
        return report.text if isinstance(report, slack.Challenge) else ""


@dataclass(frozen=True)
class WhatsAppDoor:
    """Takes reports of WhatsApp's, several in one body.

    Attributes:
        secrets: Of the app, read for each body: two while one is changed.
        receive: Writes a report into a row, unless it is there already.
    """

    secrets: Callable[[], Sequence[str]]
    receive: Callable[[Update], bool]
    reader: whatsapp.Reader

    def take(self, body: bytes, signature: str) -> None:
        """Verify a body and keep its reports; those that concern nobody are dropped.

        Args:
            signature: ``X-Hub-Signature-256``.

        Raises:
            UnsignedReportError: See there.
            UnavailableError: A row could not be written: WhatsApp sends the whole body again.
        """
        if len(body) > whatsapp.LARGEST or not whatsapp.is_whatsapps(body, signature, self.secrets()):
            raise UnsignedReportError("the report does not come from WhatsApp")
        try:
            updates = self.reader.read(body)
        except MalformedJSONError:
            return  # as above
        for update in updates:
            self.receive(update)

    def confirm(self, query: Mapping[str, str]) -> str:
        """The text to answer to WhatsApp's question whether the address is ours.

        Raises:
            UnsignedReportError: It does not ask by our token.
        """
        challenge = whatsapp.challenge_of(query, self.secrets())
        if challenge is None:
            raise UnsignedReportError("the question does not come from WhatsApp")
        return challenge


@dataclass(frozen=True)
class DiscordDoor:
    """Takes interactions of Discord's: commands that people choose in their chat with the bot.

    Attributes:
        public_key: Of the application.
        receive: Writes a command into a row, unless it is there already.
    """

    public_key: str
    receive: Callable[[Update], bool]

    def take(self, body: bytes, timestamp: str, signature: str, now: float) -> Mapping[str, Any]:
        """Verify an interaction and keep it; returns the answer.

        Args:
            timestamp: ``X-Signature-Timestamp``.
            signature: ``X-Signature-Ed25519``.
            now: Seconds since 1970.

        Raises:
            UnsignedReportError: See there; Discord tries this at times.
            UnavailableError: The row could not be written: the person sees that the command failed.
        """
        is_small = len(body) <= discord.LARGEST
        if not is_small or not discord.is_discords(body, timestamp, signature, self.public_key, now):
            raise UnsignedReportError("the interaction does not come from Discord")
        try:
            interaction = discord.read(body)
        except MalformedJSONError:
            return {}
        if interaction.update is not None:
            self.receive(interaction.update)
        return interaction.answer
