"""Keys of the connector on a platform's host."""

import secrets as random
from collections.abc import Mapping

from hermesops.access.secrets.catalog import (
    CONNECTOR_KEY,
    DISCORD_TOKEN,
    SLACK_TOKEN,
    TELEGRAM_TOKEN,
    WHATSAPP_KEY,
    WHATSAPP_TOKEN,
)
from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, UsageError
from hermesops.model.messaging.messenger import Messenger
from hermesops.settings.sections import MessengerSettings

_KEY_BYTES = 32
_TOKENS = {
    Messenger.TELEGRAM: TELEGRAM_TOKEN,
    Messenger.SLACK: SLACK_TOKEN,
    Messenger.WHATSAPP: WHATSAPP_TOKEN,
    Messenger.DISCORD: DISCORD_TOKEN,
}


def connector_keys(settings: MessengerSettings, secrets: Secrets) -> Mapping[str, str]:
    """Texts of ``sockets_key``, which is made where there is none, and of each bot's token; nothing without a bot.

    Raises:
        UsageError: There is a bot, and no token.
        RefusedError: A secret is not to be read.
    """
    tokens: dict[str, str] = {}
    for messenger, bot in settings.bots.items():
        spec = _TOKENS[messenger]
        token = secrets.find(spec)
        if not token:
            raise UsageError(
                f"missing the secret {spec.name}, by which {bot} writes to users",
                hint=Hint(("secrets", "set", spec.name, "--from", "FILE")),
            )
        tokens[f"{messenger}_token"] = token
    return {"sockets_key": made_key(secrets), **tokens} if tokens else {}


def made_key(secrets: Secrets) -> str:
    """The key from which the secrets of agents' sockets are derived; it is made where there is none."""
    return secrets.made(CONNECTOR_KEY, random.token_hex(_KEY_BYTES) + "\n")


def numbers_key(settings: MessengerSettings, secrets: Secrets) -> str:
    """The key by which the digests of telephone numbers are made, once there is one; empty without WhatsApp."""
    return secrets.made(WHATSAPP_KEY, random.token_hex(_KEY_BYTES) + "\n") if settings.whatsapp_number else ""
