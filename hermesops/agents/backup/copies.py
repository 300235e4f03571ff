"""Backups of instances: hermes-node makes and restores them, the registry has a row of each."""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from hermesops.agents.backup.proof.restore_check import Proof
from hermesops.agents.backup.store.repository import payload_of
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.errors import BrokenInvariantError, Hint, RefusedError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from hermesops.wire.state.restic_reason import KEY_REFUSED

_COPY_S = 3600.0
"""Seconds that a first backup of a large state may take."""


class Copies:
    """Makes and restores backups of instances through hermes-node, and proves them on this computer."""

    def __init__(
        self, registry: Registry, keys: Keys, nodes: PowerControl, now: Callable[[], datetime], proof: Proof
    ) -> None:
        self._registry = registry
        self._keys = keys
        self._nodes = nodes
        self._now = now
        self._proof = proof

    async def reach(self) -> None:
        """Make sure that the object store answers, and takes backups.

        Raises:
            UnavailableError: It does not answer.
            RefusedError: It keeps no versions of overwritten objects.
        """
        await self._keys.reach()

    def made(self, instance_id: InstanceId, why: str) -> Backup | None:
        """Find the backup of an instance that was made for a reason; ``None`` where there is none."""
        return next((backup for backup in self._registry.backups.list(instance_id) if backup.why == why), None)

    def newest(self, instance_id: InstanceId) -> Backup | None:
        """Find the newest backup of an instance in the registry; ``None`` where it has none."""
        return next(iter(self._registry.backups.list(instance_id)), None)

    def get(self, instance_id: InstanceId, snapshot: str) -> Backup:
        """Find the backup whose id begins with a text; the newest for an empty text.

        Raises:
            UsageError: There is none, or several.
        """
        return self._registry.backups.get(instance_id, snapshot)

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        """Back up the state on a machine, unless ``why`` has a backup already.

        ``why`` names the operation, so that a repeated one makes no second backup.

        Raises:
            UnavailableError: Object store or machine do not answer, or lack room; the agent goes on.
            LeaseLostError: A newer lease was used on the machine.
        """
        if done := self.made(instance.id, why):
            await self._keys.save_record(instance.id)  # killed before it was
            return done
        answer = await self._hand(instance, machine_id, "backup", tags=(f"why={why}",))
        try:
            backup = Backup(
                str(answer["snapshot"]),
                instance.id,
                self._now(),
                why,
                int(answer["bytes"]),
                int(answer["added"]),
                State.from_json(answer["state"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise BrokenInvariantError(f"unexpected answer of hermes-node to backup: {error}") from error
        self._registry.backups.record(backup)
        await self._keys.save_record(instance.id)
        return backup

    async def restore(self, instance: Instance, machine_id: MachineId, backup: Backup) -> State:
        """Restore a backup on a machine with a fenced gateway; returns the restored state.

        Raises:
            RefusedError: The gateway runs, or the backup is damaged.
            UnavailableError: Object store or machine do not answer, or lack room; the previous state stays.
            BrokenInvariantError: It is not the state that was backed up.
            LeaseLostError: A newer lease was used on the machine.
        """
        answer = await self._hand(instance, machine_id, "restore", snapshot=backup.id)
        state = State.from_json(answer.get("state"))
        if differs := backup.state.differences(state):
            raise BrokenInvariantError(
                f"the restored state differs from backup {backup.id[:8]} of {instance.title}: {'; '.join(differs)}",
                hint=Hint(("backup", "list", instance.title), "; the machine keeps the previous state beside it"),
            )
        return state

    async def _hand(
        self, instance: Instance, machine_id: MachineId, verb: str, *, tags: Sequence[str] = (), snapshot: str = ""
    ) -> Mapping[str, Any]:
        """Let hermes-node work with the repository.

        A key that the object store refuses is replaced once: a registry that was restored knows an older one.
        """

        async def handed() -> Mapping[str, Any]:
            opened = await self._keys.open(instance.id)
            payload = payload_of(opened.repository, opened.password, opened.credential, tags=tags, snapshot=snapshot)
            return await self._nodes.hand(machine_id, verb, payload, timeout_s=_COPY_S)

        try:
            return await handed()
        except RefusedError as error:
            if KEY_REFUSED not in error.message:
                raise
        await self._keys.rotate(instance.id, why="the object store refused the key before")
        try:
            return await handed()
        except RefusedError as error:
            hint = Hint("the object store refuses a new key, too:", ("env", "check"), "checks the object store")
            raise RefusedError(error.message, hint=hint) from error

    async def prove(self, instance: Instance, backup: Backup) -> Backup:  # noqa: ARG002 - a backup knows whose it is
        """Restore a backup on this computer, compare it, and record the result in its row."""
        return await self._proof.prove(backup)

    async def revoke(self, instance_id: InstanceId) -> None:
        """Revoke the credential of an instance's machine for its repository; the backups stay. Safe to call twice."""
        await self._keys.revoke(instance_id)
