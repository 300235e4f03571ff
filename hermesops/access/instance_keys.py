"""What one instance's machine is given to hold: its API key, and its own token for the model router."""

from pathlib import Path
from typing import Protocol

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId
from hermesops.model.instance import InstanceSecrets
from hermesops.model.route import issue_token
from hermesops.private_file import read_secret

_SHORTEST = 32


class Rows(Protocol):
    """The registry's side."""

    def api_server_key(self, instance_id: InstanceId) -> str:
        """The bearer of the agent's own HTTP API."""

    def model_token_generation(self, instance_id: InstanceId) -> int:
        """The generation of tokens that is not revoked."""


def read_router_key(path: Path) -> bytes:
    """The key that signs tokens for the model router.

    Raises:
        RefusedError: The file is missing, open to others, or holds less than 32 bytes.
    """
    return parse_router_key(read_secret(path, what="model router's key"), str(path))


def parse_router_key(text: str, where: str) -> bytes:
    """The same from its text.

    Raises:
        RefusedError: It is less than 32 bytes.
    """
    key = text.encode()
    if len(key) < _SHORTEST:
        raise RefusedError(f"the model router's key in {where} is shorter than {_SHORTEST} bytes")
    return key


class InstanceKeys:
    """Puts together an instance's secrets. The token is computed anew each time and stored nowhere.

    Args:
        rows: The registry.
        router_key: Shared with the model router.
    """

    def __init__(self, rows: Rows, router_key: bytes) -> None:
        self._rows = rows
        self._router_key = router_key

    def secrets_of(self, instance_id: InstanceId) -> InstanceSecrets:
        """What the instance's machine is personalised with; the same until something is revoked."""
        generation = self._rows.model_token_generation(instance_id)
        return InstanceSecrets(
            api_server_key=self._rows.api_server_key(instance_id),
            model_token=issue_token(self._router_key, instance_id, generation),
        )
