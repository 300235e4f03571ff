"""Backups of simulated machines: their copies are in the world itself, so nothing is restored here to prove them."""

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from hermesops.agents.backup.proof.restore_check import NotProvedError, Proof
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry


class SimulatedProof(Proof):
    """Proves backups of simulated machines.

    Args:
        count: Counts the contents of a copy again; ``None`` for a missing copy.
    """

    def __init__(
        self,
        registry: Registry,
        keys: Keys,
        restic: Restic,
        count: Callable[[str], object | None],
        report: Callable[[str], None],
    ) -> None:
        super().__init__(registry, keys, restic, report)
        self._count = count

    async def check(self, backup: Backup) -> Backup:
        """Prove it: there is no repository that could be damaged."""
        return await self.prove(backup)

    async def _restored(self, backup: Backup) -> tuple[State, str]:
        counted = await asyncio.to_thread(self._count, backup.id)
        if counted is None:
            raise NotProvedError(f"the repository has no snapshot {backup.id}")
        return State.from_json(counted), ""


@dataclass(frozen=True)
class SimulatedContents:
    """Copies in a simulated world's own memory."""

    rows: Callable[[InstanceId], Collection[Backup]]
    drop: Callable[[Sequence[str]], None]

    async def made(self, instance_id: InstanceId) -> Mapping[str, datetime]:
        """When each copy of an instance was made, by id."""
        return {backup.id: backup.at for backup in self.rows(instance_id)}

    async def remove(self, instance_id: InstanceId, ids: Sequence[str]) -> None:  # noqa: ARG002 - ids are the world's
        """Delete copies from the memory of the simulated world."""
        await asyncio.to_thread(self.drop, ids)

    async def erase(self, instance_id: InstanceId) -> None:
        """Take everything of an instance away, for good; safe to call twice."""
        await self.remove(instance_id, [backup.id for backup in self.rows(instance_id)])
