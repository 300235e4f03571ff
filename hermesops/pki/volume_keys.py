"""Keys of data volumes: made when a machine first asks for its volume's, and told to nobody but whose volume it is."""

import re
import secrets

from hermesops.errors import RefusedError
from hermesops.model.ids import InstanceId, MachineId
from hermesops.registry import Registry

_VOLUME = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_KEY_BYTES = 32


class DataKeys:
    """Releases keys; implements what ``pki.service`` asks for.

    Args:
        registry: The registry.
    """

    def __init__(self, registry: Registry) -> None:
        self._registry = registry

    def release(self, volume_id: str, machine_id: MachineId, instance_id: InstanceId | None) -> bytes:
        """The key of a volume, for the machine that has proved to be that one; the same each time.

        Raises:
            RefusedError: The volume is another's, its key was destroyed, the machine has too many, or that is no id.
        """
        if not _VOLUME.fullmatch(volume_id):
            raise RefusedError("a data volume's id is a UUID in lower case")
        fresh = secrets.token_hex(_KEY_BYTES)
        return self._registry.data_keys.release(volume_id, machine_id, instance_id, fresh=fresh).encode()
