"""The registry's key, rotated: its ring is where the environment's secrets are, its values in the registry."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial

from hermesops.app.container_parts.registry import RegistryPlace
from hermesops.errors import RefusedError
from hermesops.keyring.rotation import KeyRotation
from hermesops.operations.lease import LeaseKeeper
from hermesops.registry import Registry
from hermesops.secrets.catalog import REGISTRY_KEY
from hermesops.secrets.store import Secrets

_SUBJECT = "registry/key"
_FOREIGN_COPIES = timedelta(days=90)
"""How long somebody may want back a copy that the database's own backups hold; nobody tells us of those."""


@dataclass(frozen=True)
class RegistryKey:
    """The key that seals secret values in the registry.

    Attributes:
        place: Where copies of the registry are: they need older keys.
        hold_lease: Holds a subject's lease.
        tell: Narration.
    """

    registry: Registry
    secrets: Secrets
    place: RegistryPlace
    hold_lease: Callable[[str], LeaseKeeper]
    tell: Callable[[str], None]

    async def rotate(self, *, why: str) -> str:
        """Rotate it, or end a rotation that was cut short; id of the key that seals now.

        Raises:
            RefusedError: Somebody else rotates it right now, its home takes nothing, or something does not open.
        """
        async with self.hold_lease(_SUBJECT):
            return await asyncio.to_thread(self._rotation().run, why=why)  # it may take longer than a lease lives

    async def prepare(self) -> str:
        """Only add a key that other computers can be given before it is used; its id.

        Raises:
            RefusedError: Somebody else rotates it right now, or its home takes nothing.
        """
        async with self.hold_lease(_SUBJECT):
            return self._rotation().prepare()

    def _rotation(self) -> KeyRotation:
        return KeyRotation(
            self.registry,
            partial(self.secrets.read, REGISTRY_KEY),
            partial(self.secrets.write, REGISTRY_KEY),
            source=self.secrets.where(REGISTRY_KEY),
            now=self.registry.now,
            needed_since=self._oldest_copy,
            tell=self.tell,
        )

    def _oldest_copy(self) -> datetime | None:
        try:
            taken = self.place.copies.list()
        except RefusedError:  # PostgreSQL's backups are its own
            return datetime.now(UTC) - _FOREIGN_COPIES
        return min((one.taken_at for one in taken), default=None)
