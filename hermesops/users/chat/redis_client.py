"""The client of the Redis that carries events of turns, from settings."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.credentials import CredentialProvider

from hermesops.base.files.private_file import read_secret
from hermesops.errors import Hint, UsageError

if TYPE_CHECKING:
    from hermesops.settings.sections import WebSettings

_PORT = 6379
_CONNECT_S = 3.0
_MOST_CONNECTIONS = 64


def redis_client(web: "WebSettings") -> Redis:
    """A client; it connects when it is first asked.

    Args:
        web: Names the server, the user's password and the folder of certificates, which is the platform's form:
            ``authorities.crt``, ``client.crt``, ``client.key``.

    Raises:
        UsageError: A certificate that the settings name cannot be read. Of a password that cannot, connections say so.
    """
    url = urlsplit(web.redis_url)
    options: dict[str, Any] = {}
    if url.scheme == "rediss":
        options["ssl"] = True
        if folder := web.redis_tls_folder:
            files = {"ca_certs": "authorities.crt", "certfile": "client.crt", "keyfile": "client.key"}
            options |= {f"ssl_{name}": _readable(folder / file) for name, file in files.items()}
    if web.redis_password_file:
        options["credential_provider"] = _Login(url.username or "", web.redis_password_file)
    else:
        options["username"] = url.username
    return Redis(
        host=url.hostname or "localhost",
        port=url.port or _PORT,
        socket_connect_timeout=_CONNECT_S,
        max_connections=_MOST_CONNECTIONS,
        retry=Retry(NoBackoff(), 0),  # its user repeats, and goes on without it
        **options,
    )


class _Login(CredentialProvider):
    """The user and the password of each new connection: a password that changes by itself is in the file as it is now.

    Args:
        user: Empty for the server's default.
    """

    def __init__(self, user: str, file: Path) -> None:
        self._user = user
        self._file = file

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        """Read them.

        Raises:
            RefusedError: The file cannot be read.
        """
        password = read_secret(self._file, what="the password of Redis")
        return (self._user, password) if self._user else (password,)

    async def get_credentials_async(self) -> tuple[str] | tuple[str, str]:
        """Read them, for a connection; of whatever this raises, redis-py (8.1) makes an error of the connection."""
        return await asyncio.to_thread(self.get_credentials)


def _readable(file: Path) -> str:
    try:
        file.read_bytes()
    except OSError as error:
        hint = Hint(("settings", "set", "web.redis_tls_folder", "FOLDER"))
        raise UsageError(f"the certificate for Redis cannot be read: {error}", hint=hint) from error
    return str(file)
