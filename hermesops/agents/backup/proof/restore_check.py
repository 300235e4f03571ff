"""Proves a backup: restores it into a temporary folder and compares it with the state that was backed up.

The agent chose what is in a backup, so a process without rights reads it (``restored_state``), bounded in time and
space. Only its counts and digests are believed; the content is deleted.
"""

import asyncio
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.agents.backup.proof import restored_state
from hermesops.agents.backup.proof.confinement import Limits
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic, failure_of
from hermesops.errors import BrokenInvariantError, HermesError, RefusedError, UnavailableError
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import State
from hermesops.store.registry import Registry
from hermesops.wire import foreign_text, strict_json
from hermesops.wire.state import contents
from hermesops.wire.state.unpack import Bounds

_REPORT_BYTES = 64 << 10
_SLACK_BYTES = 16 << 20
"""Bytes by which a state may grow between its measurement and its copy."""

_ROOT = Path(__file__).parents[4]


@dataclass(frozen=True)
class Allowance:
    """How much time, memory and disk proving one backup may take.

    Attributes:
        least_s: Seconds for the smallest one.
        most_s: Seconds for the largest one; less than the time that a job gives to each.
        bytes_per_s: Each so many bytes add a second, up to ``most_s``.
        processor_s: Seconds of processor time beside those that its size gives.
    """

    least_s: float = 900.0
    most_s: float = 9000.0
    bytes_per_s: float = 10e6
    processor_s: int = 300
    memory_bytes: int = 1536 << 20
    members: int = 1_000_000
    reserve_bytes: int = 256 << 20

    def within_s(self, backup: Backup) -> float:
        """Seconds for a backup of that size."""
        return min(self.least_s + max(0, backup.bytes) / self.bytes_per_s, self.most_s)

    def bounds(self, backup: Backup) -> Bounds:
        """Limit the bytes and entries that are unpacked from a backup's archive."""
        return Bounds(max(0, backup.bytes) + _SLACK_BYTES, self.members, self.reserve_bytes)

    def limits(self, backup: Backup) -> Limits:
        """Limit the process that reads a backup, by the size of the backup."""
        most = max(0, backup.bytes) + _SLACK_BYTES
        return Limits(most, self.memory_bytes, self.processor_s + int(most / self.bytes_per_s))


class NotProvedError(RefusedError):
    """A backup differs from the recorded state, or cannot be read; the message has the reason."""


class Proof:
    """Proves backups: restores each in a confined process and compares its state with the recorded one."""

    def __init__(
        self,
        registry: Registry,
        keys: Keys,
        restic: Restic,
        report: Callable[[str], None],
        allowance: Allowance = Allowance(),
    ) -> None:
        self._registry = registry
        self._keys = keys
        self._restic = restic
        self._report = report
        self._allowance = allowance

    async def check(self, backup: Backup) -> Backup:
        """Check the whole repository, then prove one backup of it.

        Raises:
            UnavailableError: The object store does not answer, or this computer lacks restic, room or confinement.
        """
        repository, password = await self._keys.for_platform(backup.instance_id)
        self._report("checking the repository")
        try:
            await self._restic.check(repository, password)
        except UnavailableError:
            raise
        except HermesError as damage:
            return self._noted(backup, f"the repository is damaged: {damage.message}")
        return await self.prove(backup)

    async def prove(self, backup: Backup) -> Backup:
        """Restore a backup into a folder here, compare it, and record the result in its row.

        Raises:
            UnavailableError: The object store does not answer or is too slow, or this computer lacks room or cannot
                confine what reads a backup.
        """
        self._report(f"restoring backup {backup.id[:8]} into a folder here, to compare")
        within_s = self._allowance.within_s(backup)
        try:
            async with asyncio.timeout(within_s):
                state, why = await self._restored(backup)
        except TimeoutError as error:
            raise UnavailableError(
                f"backup {backup.id[:8]} was not proved within {within_s:g} s",
                hint="run the same command again, near the object store or on a faster computer",
            ) from error
        except NotProvedError as failure:
            return self._noted(backup, failure.message)
        differs = "; ".join(backup.state.differences(state))
        return self._noted(backup, f"{differs} ({why})" if differs and why else differs)

    def _noted(self, backup: Backup, problem: str) -> Backup:
        self._registry.backups.record_check(backup.id, problem)
        return self._registry.backups.get(backup.instance_id, backup.id)

    async def _restored(self, backup: Backup) -> tuple[State, str]:
        """The state that a backup restores to, and why some of it cannot be read."""
        repository, password = await self._keys.for_platform(backup.instance_id)
        async with _folder() as folder:
            self._refuse_full(folder, backup)
            stream, target = os.pipe()
            try:
                async with self._restic.dumping(repository, password, backup.id, target) as dump:
                    os.close(target)
                    target = -1
                    words = restored_state.command(
                        _ROOT, folder, self._allowance.bounds(backup), self._allowance.limits(backup)
                    )
                    async with _started(words, stream) as reader:
                        os.close(stream)  # else restic would not notice that the reader is gone
                        stream = -1
                        result = await _report(reader)
                    _, stderr = await dump.communicate()
                    self._refuse_failed(dump.returncode or 0, stderr.decode(errors="replace"), result)
            finally:
                for descriptor in (stream, target):
                    if descriptor >= 0:
                        os.close(descriptor)
        return _state_of(result)

    def _refuse_full(self, folder: Path, backup: Backup) -> None:
        room = os.statvfs(folder)
        free, needed = room.f_bavail * room.f_frsize, backup.bytes + self._allowance.reserve_bytes
        if free < needed:
            raise UnavailableError(
                f"restoring backup {backup.id[:8]} needs {needed / 1e9:.1f} GB; {free / 1e9:.1f} GB are free in "
                f"{folder.parent}",
                hint=f"df -h {folder.parent}; variable TMPDIR names another folder",
            )

    def _refuse_failed(self, code: int, stderr: str, result: Mapping[str, Any]) -> None:
        if confined := result.get("confined"):
            self._report(f"the restored copy was read {foreign_text.one_line(str(confined))}")
        error, kind = foreign_text.one_line(str(result.get("error", ""))), result.get("kind")
        if kind == restored_state.UNCONFINED:
            raise UnavailableError(
                f"this computer cannot confine the reader of a backup: {error}",
                hint="run as root, or allow user namespaces: sysctl user.max_user_namespaces "
                "kernel.apparmor_restrict_unprivileged_userns",
            )
        is_unread = code == -signal.SIGPIPE or "broken pipe" in stderr.lower()
        if code and not (error and is_unread):
            failure = failure_of(stderr)
            raise NotProvedError(failure.message) if isinstance(failure, RefusedError) else failure
        if error:
            raise UnavailableError(error, hint="df -h") if kind == restored_state.NOT_HERE else NotProvedError(error)


@asynccontextmanager
async def _folder() -> AsyncIterator[Path]:
    """A temporary folder, deleted with all that is in it, however deep or many."""
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="hermesops-proof-"))  # mode 0700
    try:
        yield folder
    finally:
        await asyncio.to_thread(contents.remove, folder)


@asynccontextmanager
async def _started(words: Sequence[str], stream: int) -> AsyncIterator[asyncio.subprocess.Process]:
    """Start the process that reads; it and all that it started are killed at the end.

    It gets an environment of its own: ours holds secrets.
    """
    process = await asyncio.create_subprocess_exec(
        *words,
        stdin=stream,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
        cwd="/",
        start_new_session=True,
    )
    try:
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        if process.stdout is not None:
            while await process.stdout.read(_REPORT_BYTES):
                pass  # its end is that of the last process that holds the folder
        await process.wait()


async def _report(reader: asyncio.subprocess.Process) -> dict[str, Any]:
    if reader.stdout is None:
        raise TypeError("the process that reads has no standard output")
    try:
        await reader.stdout.readexactly(_REPORT_BYTES)
    except asyncio.IncompleteReadError as whole:
        with suppress(strict_json.MalformedJSONError):
            return strict_json.parse_object(whole.partial)
    return {"error": "the reader of the backup ended without a valid report"}


def _state_of(result: Mapping[str, Any]) -> tuple[State, str]:
    try:
        return State.from_json(result.get("state")), foreign_text.one_line(str(result.get("why", "")))
    except BrokenInvariantError as error:
        raise NotProvedError(error.message) from error
