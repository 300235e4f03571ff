"""Secrets of messengers and of agents' sockets, as they are kept: a line each, the newest first while one changes."""

from hermesops.access.secrets.catalog import (
    CONNECTOR_KEY,
    DISCORD_TOKEN,
    SLACK_SECRET,
    SLACK_TOKEN,
    TELEGRAM_SECRET,
    TELEGRAM_TOKEN,
    WHATSAPP_KEY,
    WHATSAPP_SECRET,
    WHATSAPP_TOKEN,
)
from hermesops.access.secrets.store import Secrets
from hermesops.errors import UsageError
from hermesops.model.ids import InstanceId
from hermesops.settings.sections import MessengerSettings
from hermesops.users.messaging.messengers.discord import send as discord
from hermesops.users.messaging.messengers.slack import send as slack
from hermesops.users.messaging.messengers.telegram import send as telegram
from hermesops.users.messaging.messengers.whatsapp import send as whatsapp
from hermesops.users.messaging.relay_secrets import derive

_SHORTEST = 32


def lines_of(text: str) -> tuple[str, ...]:
    """The lines of a secret that may have several. Pure."""
    return tuple(line.strip() for line in text.splitlines() if line.strip())


def roots_in(text: str) -> tuple[bytes, ...]:
    """The keys in ``connector.key``, the newest first. Pure.

    Raises:
        UsageError: One is short.
    """
    roots = tuple(line.encode() for line in lines_of(text))
    if not roots or any(len(root) < _SHORTEST for root in roots):
        raise UsageError(f"connector.key: each line has to have {_SHORTEST} characters or more")
    return roots


def gateway_secrets(secrets: Secrets, instance_id: InstanceId, generations: range) -> tuple[str, ...]:
    """The secrets by which an agent's gateway may sign, of each key and generation."""
    roots = roots_in(secrets.read(CONNECTOR_KEY))
    return tuple(derive(root, instance_id, generation) for root in roots for generation in generations)


def webhook_secrets(secrets: Secrets) -> tuple[str, ...]:
    """The secrets that Telegram's updates may have."""
    return lines_of(secrets.read(TELEGRAM_SECRET))


def slack_secrets(secrets: Secrets) -> tuple[str, ...]:
    """The secrets by which Slack's events may be signed."""
    return lines_of(secrets.read(SLACK_SECRET))


def whatsapp_secrets(secrets: Secrets) -> tuple[str, ...]:
    """The secrets by which WhatsApp's reports may be signed."""
    return lines_of(secrets.read(WHATSAPP_SECRET))


def whatsapp_key(secrets: Secrets) -> bytes:
    """The key by which the digests of people in WhatsApp are made.

    Raises:
        UsageError: It is short.
    """
    return key_in(secrets.read(WHATSAPP_KEY))


def key_in(text: str) -> bytes:
    """The key in ``whatsapp.key``. Pure.

    Raises:
        UsageError: It is short, so that numbers could be found from their digests.
    """
    key = text.strip().encode()
    if len(key) < _SHORTEST:
        raise UsageError(f"{WHATSAPP_KEY.name} has to have {_SHORTEST} characters or more")
    return key


def telegram_bot(settings: MessengerSettings, secrets: Secrets) -> telegram.TelegramBot:
    """The platform's bot at Telegram, which reads its token for each request."""
    return telegram.TelegramBot(lambda: secrets.read(TELEGRAM_TOKEN).strip(), settings.telegram_url or telegram.ADDRESS)


def slack_bot(settings: MessengerSettings, secrets: Secrets) -> slack.SlackBot:
    """The platform's bot at Slack, which reads its token for each request."""
    return slack.SlackBot(lambda: secrets.read(SLACK_TOKEN).strip(), settings.slack_url or slack.ADDRESS)


def whatsapp_bot(settings: MessengerSettings, secrets: Secrets) -> whatsapp.WhatsAppBot:
    """The platform's number at WhatsApp, which reads its token for each request."""
    address = settings.whatsapp_url or whatsapp.ADDRESS
    phone, account = settings.whatsapp_phone, settings.whatsapp_account
    return whatsapp.WhatsAppBot(lambda: secrets.read(WHATSAPP_TOKEN).strip(), phone, account, address)


def discord_bot(settings: MessengerSettings, secrets: Secrets) -> discord.DiscordBot:
    """The platform's bot at Discord, which reads its token for each request."""
    return discord.DiscordBot(lambda: secrets.read(DISCORD_TOKEN).strip(), settings.discord_url or discord.ADDRESS)
