"""Keys of data volumes: made when a machine first asks for its volume's, and told to nobody but whose volume it is."""

import re
import secrets
from typing import Protocol

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, MachineId

_VOLUME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY_BYTES = 32


class Rows(Protocol):
    """The registry, as far as keys of volumes go."""

    def release_data_key(
        self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None, *, fresh: str
    ) -> str:
        """The key of a volume; a new volume's is ``fresh``."""


class DataKeys:
    """Releases keys; implements what ``pki.service`` asks for.

    Args:
        rows: The registry.
    """

    def __init__(self, rows: Rows) -> None:
        self._rows = rows

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None) -> bytes:
        """The key of a volume, for the machine that has proved to be that one; the same each time.

        Raises:
            RefusedError: The volume is another's, its key was destroyed, the machine has too many, or that is no id.
        """
        if not _VOLUME.fullmatch(volume_id):
            raise RefusedError("a data volume's id is a UUID in lower case")
        fresh = secrets.token_hex(_KEY_BYTES)
        return self._rows.release_data_key(volume_id, machine_id, instance_id, fresh=fresh).encode()
