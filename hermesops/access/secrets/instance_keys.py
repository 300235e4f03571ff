"""The secrets of one instance's machine: its API key, and its token for the model router."""

from collections.abc import Callable
from datetime import timedelta
from functools import cache
from pathlib import Path

from hermesops.base.files.private_file import read_secret
from hermesops.errors import RefusedError
from hermesops.model.billing.route import PresentToken, issue_token
from hermesops.model.fleet.instance import InstanceSecrets
from hermesops.model.ids import InstanceId
from hermesops.store.registry import Registry

_SHORTEST = 32


def read_router_keys(path: Path) -> tuple[bytes, ...]:
    """Read the keys of tokens for the model router, a line each: the first signs, the others are accepted beside it.

    Raises:
        RefusedError: The file is missing or open to others, or a key is shorter than 32 bytes.
    """
    return parse_router_keys(read_secret(path, what="model router's key"), str(path))


def parse_router_keys(text: str, where: str) -> tuple[bytes, ...]:
    """Parse the keys of tokens for the model router from a text.

    Raises:
        RefusedError: There is no key, or one is shorter than 32 bytes.
    """
    keys = tuple(line.strip().encode() for line in text.splitlines() if line.strip())
    if not keys or any(len(key) < _SHORTEST for key in keys):
        raise RefusedError(f"the model router's key in {where} is shorter than {_SHORTEST} bytes")
    return keys


class InstanceKeys:
    """Makes an instance's secrets. The token is computed each time and stored nowhere.

    Args:
        router_key: Reads the key shared with the model router; called once, for the first token.
        life: Lifetime of a token for the model router.
    """

    def __init__(self, registry: Registry, router_key: Callable[[], bytes], *, life: timedelta) -> None:
        self._registry = registry
        self.router_key = cache(router_key)
        self._life = life

    def secrets_of(self, instance_id: InstanceId) -> InstanceSecrets:
        """Return the secrets that the instance's machine should have; unchanged until one is renewed or revoked.

        If no token was issued since the last revocation, the token in it opens nothing.
        """
        row = self._registry.model_tokens.get(instance_id)
        expires_at = int(row.expires_at.timestamp()) if row.expires_at else 0
        return InstanceSecrets(
            api_server_key=self._registry.instance_secrets.api_server_key(instance_id),
            model_token=issue_token(self.router_key(), instance_id, row.generation, expires_at),
        )

    def renew(self, instance_id: InstanceId) -> PresentToken:
        """Renew the present token if less than half of its life is left; for ``note_handed``."""
        return self._registry.model_tokens.renew(instance_id, life=self._life)

    def note_handed(self, instance_id: InstanceId, token: PresentToken) -> None:
        """Record that the instance's machine has that token."""
        self._registry.model_tokens.record_handed(instance_id, token)
