"""Backups of one session's instances: keys from the registry, the object store, hermes-node on machines."""

from typing import TYPE_CHECKING

from hermesops.backup.copies import Copies
from hermesops.backup.keys import Keys
from hermesops.errors import UnavailableError

if TYPE_CHECKING:
    from hermesops.app.session import Session
    from hermesops.backup.keys import Store
    from hermesops.backup.repository import Repository
    from hermesops.lifecycle.resting import RestingReach
    from hermesops.model.backup import Backup


class Proofs(Copies):
    """Backups that can be proved to restore."""

    async def prove(self, backup: "Backup") -> "Backup":
        """Restore a backup on this computer and compare."""
        raise UnavailableError(f"backup {backup.id} cannot be proved here yet")


def copies(session: "Session", reach: "RestingReach") -> Proofs:
    """Make them."""
    registry = session.app.registry

    async def store() -> "Store":
        raise UnavailableError("no object store is known here yet")

    async def begin(_repository: "Repository", _password: str) -> None:
        raise UnavailableError("no object store is known here yet")

    return Proofs(registry, Keys(registry, store, session.app.env.name, begin), reach, registry.now)
