"""Backups to be proved whose archive a test chooses: everything is real but the repository that it comes from."""

import asyncio
import io
import sys
import tarfile
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from hermesops.agents.backup.proof.restore_check import Allowance, Proof
from hermesops.agents.backup.store.repository import Bucket, Repository
from hermesops.agents.backup.store.repository_keys import Keys
from hermesops.agents.backup.store.restic import Restic
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, Credential
from hermesops.model.recovery.state import State
from hermesops.wire.state import tar_stream
from hermesops.wire.state.digest import Digest
from tests.support.fakes.registry import FakeRegistry

NOW = datetime(2026, 3, 1, tzinfo=UTC)
QUICK = Allowance(least_s=60, most_s=60, processor_s=20, memory_bytes=512 << 20, members=2000, reserve_bytes=64 << 20)


@dataclass
class Rows(FakeRegistry):
    """The registry's backups.

    Attributes:
        known: By id.
    """

    known: dict[str, Backup] = field(default_factory=dict)

    def backups_record_check(self, backup_id: str, problem: str) -> None:
        self.known[backup_id] = replace(self.known[backup_id], checked_at=NOW, checked=problem)

    def backups_get(self, _instance_id: InstanceId, text: str) -> Backup:
        return self.known[text]


class KnownKeys(Keys):
    """What opens a repository, which nobody had to issue."""

    def __init__(self, where: str = "", password: str = "") -> None:
        self._where = where
        self._password = password

    async def for_platform(self, instance_id: InstanceId) -> tuple[Repository, str]:
        return _Folder(Bucket("", ""), str(instance_id), self._where), self._password


@dataclass(frozen=True)
class _Folder(Repository):
    where: str

    @property
    def url(self) -> str:
        return self.where


async def _no_credential() -> Credential:
    return Credential("", "")


class ArchiveRestic(Restic):
    """Gives the archive that a program writes, whatever snapshot is asked for.

    Args:
        programs: The words that start it, by snapshot.
    """

    def __init__(self, programs: dict[str, Sequence[str]]) -> None:
        super().__init__({}, _no_credential)
        self._programs = programs

    @asynccontextmanager
    async def dumping(
        self, _repository: Repository, _password: str, snapshot: str, target: int
    ) -> AsyncIterator[asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            *self._programs[snapshot], stdout=target, stderr=asyncio.subprocess.PIPE
        )
        try:
            yield process
        finally:
            with suppress(ProcessLookupError):
                process.kill()
            await process.wait()


@dataclass
class Proofs:
    """Proves what tests make up.

    Attributes:
        folder: Of archives.
        allowance: What proving one may take.
        told: What was narrated.
    """

    folder: Path
    allowance: Allowance = QUICK
    told: list[str] = field(default_factory=list)
    _rows: Rows = field(default_factory=Rows)
    _programs: dict[str, Sequence[str]] = field(default_factory=dict)

    def archive(self, data: bytes, state: State, size: int = 1 << 20) -> Backup:
        """A backup that is these bytes."""
        path = self.folder / str(len(self._programs))
        path.write_bytes(data)
        return self.written(["cat", str(path)], state, size)

    def script(self, text: str, size: int = 1 << 20) -> Backup:
        """A backup that Python writes to ``out``: for what is too long to be kept."""
        return self.written([sys.executable, "-c", f"import sys\nout = sys.stdout.buffer\n{text}"], State({}), size)

    def written(self, words: Sequence[str], state: State, size: int) -> Backup:
        """A backup that a program writes."""
        backup = Backup(f"{len(self._programs):08x}", InstanceId("i-1"), NOW, "test", size, size, state)
        self._programs[backup.id] = words
        self._rows.known[backup.id] = backup
        return backup

    async def prove(self, backup: Backup) -> Backup:
        """Prove one."""
        restic = ArchiveRestic(self._programs)
        return await Proof(self._rows, KnownKeys(), restic, self.told.append, self.allowance).prove(backup)


def tar(*entries: tuple[tarfile.TarInfo, bytes], format_: int = tarfile.GNU_FORMAT) -> bytes:
    """A whole archive of these entries, which says that it amounts to no state."""
    data, times = io.BytesIO(), tar_stream.Times()
    with tarfile.open(fileobj=data, mode="w", format=format_) as archive:
        for entry, content in entries:
            entry.size = len(content) or entry.size
            archive.addfile(entry, io.BytesIO(content) if content else None)
            times.add(0)
        tar_stream.write_trailer(archive, Digest().result(), len(entries), times)
    return data.getvalue()


def entry(name: str, change: Callable[[tarfile.TarInfo], object] = lambda _: None) -> tuple[tarfile.TarInfo, bytes]:
    """An entry of an archive, changed."""
    member = tarfile.TarInfo(name)
    change(member)
    return member, b""
