"""Role ``hermes_platform_postgresql``: the platform's database, and the key that its backups are encrypted with."""

import asyncio
import re
import secrets
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from hermesops.platform.host import CertificatePairs, HostAddress

_HELD = "sed -n s/^repo1-cipher-pass=//p /etc/hermes-platform/secrets/pgbackrest/repository.conf"
_KEY = re.compile(r"[A-Za-z0-9_-]{32,128}", re.ASCII)
_KEY_BYTES = 48
_SHOWN_S = 10.0


@dataclass(frozen=True)
class DatabasePart:
    """Role ``hermes_platform_postgresql``: the database and its backups.

    The key is the environment's, not the host's alone: whoever loses the host still opens the backups. A host that made
    its own before keeps it, and the environment gets a copy.

    Args:
        key: The environment's key of the backups, which is the given one where it has none yet; blocks.
        restore_to: What a host without a database restores: a moment, ``latest``, or empty for a new one.
    """

    environment: str
    bucket: str
    clients: object
    key: Callable[[str], str]
    restore_to: str = ""
    role: str = "hermes_platform_postgresql"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role, with the key of the backups; adopts the host's key where the environment has none."""
        del at
        current_key = (await pairs.channel.run(_HELD, timeout_s=_SHOWN_S)).text.strip()
        key = current_key if _KEY.fullmatch(current_key) else secrets.token_urlsafe(_KEY_BYTES)
        return {
            "environment": self.environment,
            "bucket": self.bucket,
            "clients": self.clients,
            "cipher_key": await asyncio.to_thread(self.key, key),
            "restore_to": self.restore_to,
        }
