"""A backup restored once into a folder that goes away again, and held against what was copied.

hermes-node's own code takes the copy apart and counts it; what is in it is not looked at and stays nowhere.
"""

import asyncio
import json
import os
import tempfile
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Protocol

from hermesops import child_environment
from hermesops.backup.copies import Copies, Nodes
from hermesops.backup.copies import Rows as CopyRows
from hermesops.backup.keys import Keys
from hermesops.backup.restic import Restic, failure_of
from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.model.backup import Backup
from hermesops.model.ids import InstanceId
from hermesops.model.instance import Instance
from hermesops.model.state import State


class Rows(Protocol):
    """The registry, as far as checks are kept."""

    def note_check(self, backup_id: str, problem: str) -> None:
        """Record what came of a check."""

    def get_backup(self, instance_id: InstanceId, text: str) -> Backup:
        """One backup."""


class Proof:
    """Proves backups.

    Args:
        rows: The registry.
        keys: Opens repositories.
        restic: The platform's.
        unpack: Begins a process that takes a state apart: ``HOME`` and a descriptor for its report follow.
        tell: Narration.
    """

    def __init__(
        self, rows: Rows, keys: Keys, restic: Restic, unpack: Sequence[str], tell: Callable[[str], None]
    ) -> None:
        self._rows = rows
        self._keys = keys
        self._restic = restic
        self._unpack = unpack
        self._tell = tell

    async def check(self, backup: Backup) -> Backup:
        """Look whether the whole repository is sound, then prove one backup of it.

        Raises:
            UnavailableError: The object store does not answer, or this computer lacks room.
        """
        repository, password = await self._keys.look(backup.instance_id)
        self._tell("looking whether the repository is whole")
        try:
            await self._restic.check(repository, password)
        except UnavailableError:
            raise
        except HermesError as damage:
            return self._noted(backup, f"the repository is damaged: {damage.message}")
        return await self.prove(backup)

    async def prove(self, backup: Backup) -> Backup:
        """Restore a backup into a folder here, and compare; its row says what came of it.

        Raises:
            UnavailableError: The object store does not answer, or this computer lacks room.
        """
        self._tell(f"restoring backup {backup.id[:8]} into a folder here, to compare")
        try:
            state = await self._restored(backup)
        except RefusedError as failure:
            return self._noted(backup, failure.message)
        return self._noted(backup, "; ".join(backup.state.differences(state)))

    def _noted(self, backup: Backup, problem: str) -> Backup:
        self._rows.note_check(backup.id, problem)
        return self._rows.get_backup(backup.instance_id, backup.id)

    async def _restored(self, backup: Backup) -> State:
        repository, password = await self._keys.look(backup.instance_id)
        stream, target = os.pipe()
        with tempfile.TemporaryDirectory(prefix="hermesops-proof-") as folder:  # mode 0700
            try:
                async with self._restic.dumping(repository, password, backup.id, target) as dump:
                    os.close(target)
                    target = -1
                    told = await self._taken_apart(Path(folder), stream)
                    _, said = await dump.communicate()
                    if dump.returncode:
                        raise failure_of(said.decode(errors="replace"))
            finally:
                for descriptor in (stream, target):
                    if descriptor >= 0:
                        os.close(descriptor)
        if "error" in told:
            raise (UnavailableError if told.get("kind") == "NotReadyError" else RefusedError)(str(told["error"]))
        return State.from_json(told.get("state"))

    async def _taken_apart(self, folder: Path, stream: int) -> Mapping[str, object]:
        report, told = os.pipe()
        try:
            process = await asyncio.create_subprocess_exec(
                *self._unpack,
                str(folder),
                str(told),
                stdin=stream,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.DEVNULL,
                pass_fds=[told],
                env=child_environment.made(),
            )
        except BaseException:
            os.close(report)
            raise
        finally:
            os.close(told)
        with os.fdopen(report, "rb") as said:
            try:
                await process.wait()
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
            text = said.read()
        try:
            return dict(json.loads(text))
        except ValueError as error:
            raise UnavailableError("the restored copy could not be taken apart here", hint="df -h /tmp") from error


class ProvedCopies(Copies):
    """Backups, made, put back and proved.

    Args:
        rows: The registry.
        keys: Opens repositories.
        nodes: hermes-node on machines.
        now: The time.
        proof: Restores on this computer.
    """

    def __init__(self, rows: CopyRows, keys: Keys, nodes: Nodes, now: Callable[[], datetime], proof: Proof) -> None:
        super().__init__(rows, keys, nodes, now)
        self._proof = proof

    async def prove(self, instance: Instance, backup: Backup) -> Backup:  # noqa: ARG002 - a backup knows whose it is
        """Restore a backup on this computer and compare; its row says what came of it."""
        return await self._proof.prove(backup)

    async def revoke(self, instance_id: InstanceId) -> None:
        """End what an instance's machine could open its repository with; the backups stay. Safe to call twice."""
        await self._keys.revoke(instance_id)
