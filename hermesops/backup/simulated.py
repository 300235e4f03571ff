"""Proofs of backups in a simulated world, which has the copies itself: nothing is restored here."""

import asyncio
from collections.abc import Callable

from hermesops.backup.restore_check import NotProvedError, Proof
from hermesops.backup.store.repository_keys import Keys
from hermesops.backup.store.restic import Restic
from hermesops.model.backup import Backup
from hermesops.model.state import State
from hermesops.registry import Registry


class SimulatedProof(Proof):
    """Proves backups of simulated machines.

    Args:
        count: Counts what is in a copy; ``None`` for one that is not there.
    """

    def __init__(
        self,
        rows: Registry,
        keys: Keys,
        restic: Restic,
        count: Callable[[str], object | None],
        tell: Callable[[str], None],
    ) -> None:
        super().__init__(rows, keys, restic, tell)
        self._count = count

    async def check(self, backup: Backup) -> Backup:
        """Prove it: there is no repository that could be damaged."""
        return await self.prove(backup)

    async def _restored(self, backup: Backup) -> tuple[State, str]:
        counted = await asyncio.to_thread(self._count, backup.id)
        if counted is None:
            raise NotProvedError(f"the repository has no snapshot {backup.id}")
        return State.from_json(counted), ""
