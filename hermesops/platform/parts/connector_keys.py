"""Keys of the connector on a platform's host."""

import secrets as random
from collections.abc import Mapping

from hermesops.access.secrets.catalog import CONNECTOR_KEY, TELEGRAM_TOKEN
from hermesops.access.secrets.store import Secrets
from hermesops.errors import Hint, UsageError
from hermesops.settings.sections import MessengerSettings

_KEY_BYTES = 32


def connector_keys(settings: MessengerSettings, secrets: Secrets) -> Mapping[str, str]:
    """Texts of ``sockets_key``, which is made where there is none, and ``telegram_token``; nothing without a bot.

    Raises:
        UsageError: There is a bot, and no token.
        RefusedError: A secret is not to be read.
    """
    if not settings.telegram_bot:
        return {}
    token = secrets.find(TELEGRAM_TOKEN)
    if not token:
        raise UsageError(
            f"missing the secret {TELEGRAM_TOKEN.name}, by which {settings.telegram_bot} writes to users",
            hint=Hint(("secrets", "set", TELEGRAM_TOKEN.name, "--from", "FILE")),
        )
    return {"sockets_key": made_key(secrets), "telegram_token": token}


def made_key(secrets: Secrets) -> str:
    """The key from which the secrets of agents' sockets are derived; it is made where there is none."""
    return secrets.made(CONNECTOR_KEY, random.token_hex(_KEY_BYTES) + "\n")
