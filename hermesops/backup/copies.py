"""Backups of instances, made and put back by hermes-node, and the rows that say so."""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any, Protocol

from hermesops.backup.repository import payload_of
from hermesops.backup.store.repository_keys import Keys
from hermesops.errors import BrokenInvariantError
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance
from hermesops.model.state import State
from hermesops.registry import Registry

_COPY_S = 3600.0
"""Seconds that a first backup of a large state may take."""


class Nodes(Protocol):
    """hermes-node on machines, under a lease."""

    async def hand(self, machine_id: MachineId, verb: str, payload: bytes, *, timeout_s: float) -> Mapping[str, Any]:
        """Run a command that reads a file of secrets; its answer."""


class Copies:
    """Makes backups and puts them back.

    Args:
        registry: The registry.
        keys: Opens repositories.
        nodes: hermes-node on machines.
        now: The time.
    """

    def __init__(self, registry: Registry, keys: Keys, nodes: Nodes, now: Callable[[], datetime]) -> None:
        self._registry = registry
        self._keys = keys
        self._nodes = nodes
        self._now = now

    async def reach(self) -> None:
        """Make sure that the object store answers, and takes backups.

        Raises:
            UnavailableError: It does not answer.
            RefusedError: It would lose what is overwritten.
        """
        await self._keys.reach()

    def made(self, instance_id: InstanceId, why: str) -> Backup | None:
        """The copy that was made for that."""
        return next((backup for backup in self._registry.backups.list(instance_id) if backup.why == why), None)

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """The last copy that was made."""
        return next(iter(self._registry.backups.list(instance_id)), None)

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """The one whose id begins so; the newest for an empty text.

        Raises:
            UsageError: There is none, or several.
        """
        return self._registry.backups.get(instance_id, snapshot)

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        """Copy the state on a machine, unless it was copied for that before.

        Args:
            instance: Whose.
            machine_id: Where it is.
            why: What for; names the operation, so that it is made once.

        Raises:
            UnavailableError: Object store or machine do not answer, or lack room; the agent goes on.
            LeaseLostError: Somebody with a newer lease has been there.
        """
        if done := self.made(instance.id, why):
            return done
        opened = await self._keys.open(instance.id)
        payload = payload_of(opened.repository, opened.password, opened.credential, tags=(f"why={why}",))
        said = await self._nodes.hand(machine_id, "backup", payload, timeout_s=_COPY_S)
        try:
            backup = Backup(
                str(said["snapshot"]),
                instance.id,
                self._now(),
                why,
                int(said["bytes"]),
                int(said["added"]),
                State.from_json(said["state"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenInvariantError(f"hermes-node's answer to backup is not understood: {error}") from error
        self._registry.backups.record(backup)
        return backup

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> State:
        """Put a backup's state on a machine whose gateway is fenced; what is there now.

        Raises:
            RefusedError: The gateway runs, or the backup is not whole.
            UnavailableError: Object store or machine do not answer, or lack room; what was there is still there.
            BrokenInvariantError: It is not the state that was copied.
            LeaseLostError: Somebody with a newer lease has been there.
        """
        opened = await self._keys.open(instance.id)
        payload = payload_of(opened.repository, opened.password, opened.credential, snapshot=backup.id)
        said = await self._nodes.hand(machine_id, "restore", payload, timeout_s=_COPY_S)
        state = State.from_json(said.get("state"))
        if differs := backup.state.differences(state):
            raise BrokenInvariantError(
                f"backup {backup.id[:8]} of {instance.title} is not what was copied: {'; '.join(differs)}",
                hint=f"hermesops backup list {instance.title}; what was there before is kept beside it on the machine",
            )
        return state
