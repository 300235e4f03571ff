"""A write that a disk refuses is told as that, with the path, and what to do; not as what follows from it."""

import asyncio
import contextlib
import errno
import os
import resource
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesops.automation.doctor.environment import check_all
from hermesops.base.fan_out import Limits, fan_out
from hermesops.base.files import disk
from hermesops.base.files.private_file import make_secret
from hermesops.errors import BrokenInvariantError, HermesError, NotWrittenError, UnavailableError
from hermesops.infra.engine.embedded.state.storage import FolderStorage
from hermesops.localcloud.store.database import Store
from hermesops.model.check import Verdict
from hermesops.model.ids import OperationId
from hermesops.model.operation import Lease
from hermesops.store.operations import queue
from hermesops.store.operations.leases import keeper as lease_module
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.backup import copy_database
from hermesops.store.registry.open import open_registry
from tests.support.fakes.registry import FakeRegistry
from tests.support.real.stores.registries import KEYS

GROWN = 1 << 16


@contextlib.contextmanager
def files_that_may_not_grow(above: int = 4096) -> Iterator[None]:
    """Limit what this process may write into a file: a refusal by the kernel that needs no disk of its own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    bytecode = sys.dont_write_bytecode
    sys.dont_write_bytecode = True  # importlib puts a file that was cut off in the place of a whole one
    resource.setrlimit(resource.RLIMIT_FSIZE, (above, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        sys.dont_write_bytecode = bytecode


def refused(work: Callable[[], object], *words: str) -> HermesError:
    """The error for work that writes more than it may."""
    with files_that_may_not_grow(), pytest.raises(NotWrittenError) as raised:
        work()
    for word in (*words, "larger than this process may write"):
        assert word in raised.value.message, raised.value.message
    assert raised.value.exit_code == 4
    assert str(raised.value.hint), raised.value.message
    return raised.value


def database(file: Path) -> Database:
    database = Database(f"sqlite:///{file}")
    with database.writing() as connection:
        connection.exec_driver_sql("CREATE TABLE big (value BLOB)")
    return database


def grow(registry: Database, *, most_pages: int = 0) -> None:
    with registry.writing() as connection:
        if most_pages:
            connection.exec_driver_sql(f"PRAGMA max_page_count = {most_pages}")
        connection.exec_driver_sql("INSERT INTO big VALUES (zeroblob(?))", (GROWN,))


def test_each_writer_names_its_file_and_the_cause(tmp_path: Path) -> None:
    registry = database(tmp_path / "registry.db")
    grow(registry)
    state = FolderStorage(tmp_path / "state")
    (tmp_path / "world.db").touch()
    writers: dict[str, Callable[[], object]] = {
        "registry.db": lambda: grow(registry),
        "a.key": lambda: make_secret(tmp_path / "a.key", "x" * GROWN),
        "cell1.json": lambda: state.write("cell1.json", bytes(GROWN)),
        "world.db": lambda: Store(tmp_path / "world.db"),
        "worker.db": lambda: asyncio.run(queue_at(tmp_path / "worker.db").open()),
    }
    for name, write in writers.items():
        refused(write, str(tmp_path), name)
    with files_that_may_not_grow(), pytest.raises(NotWrittenError, match=r"registry\.db cannot be written"):
        copy_database(tmp_path / "registry.db", tmp_path / "copy.db")


def queue_at(file: Path) -> queue.DbosQueue:
    async def turn(_: OperationId) -> bool:
        return False

    return queue.DbosQueue(f"sqlite:///{file}", environment="local", worker="w", concurrency=1, turn=turn)


def test_the_queue_names_its_file_and_who_may_read_it(tmp_path: Path) -> None:
    file = tmp_path / "worker.db"
    file.write_text("rubbish " * 200)
    with pytest.raises(BrokenInvariantError, match=str(file)) as damaged:
        asyncio.run(queue_at(file).open())
    assert damaged.value.hint.text() == (
        f"mv {file} {file}.damaged, then hermesops worker makes a new one from the registry"
    )
    file.unlink()
    queue._prepare(f"sqlite:///{file}")
    assert file.stat().st_mode & 0o777 == 0o600


def test_a_full_database_is_a_full_disk(tmp_path: Path) -> None:
    """SQLite's own limit of pages gives the same answer as a full disk; the trial then finds room."""
    registry = database(tmp_path / "registry.db")
    with pytest.raises(NotWrittenError, match="the disk is full") as raised:
        grow(registry, most_pages=5)
    assert "GB free" in raised.value.message
    assert "then run the same command again" in raised.value.hint.text()


def test_what_a_disk_says_is_told_with_what_to_do(tmp_path: Path) -> None:
    for number, why, act in (
        (errno.ENOSPC, "the disk is full (", "make room on the disk at /"),
        (errno.EDQUOT, "the disk quota of this user is used up (", "have the quota raised"),
        (errno.EROFS, "the file system is read-only", "mounted writable"),
        (errno.EIO, "the disk reports an error", "dmesg"),
        (errno.EFBIG, "larger than this process may write", "ulimit -f unlimited"),
    ):
        error = disk.not_written(tmp_path / "no" / "file", OSError(number, os.strerror(number)))
        assert why in error.message, error.message
        assert str(tmp_path / "no" / "file") in error.message
        assert act in error.hint.text(), error.hint.text()
    assert not disk.is_refusal(PermissionError(errno.EACCES, "no"))


def test_an_error_without_a_name_is_traced_to_its_disk(tmp_path: Path) -> None:
    with files_that_may_not_grow(), pytest.raises(OSError, match="File too large") as raised:
        (tmp_path / "big").write_bytes(bytes(GROWN))
    assert raised.value.filename is None
    with files_that_may_not_grow():
        assert str(tmp_path) in disk.refused_write(raised.value, [tmp_path]).message
    assert "a file cannot be written" in disk.refused_write(raised.value, [tmp_path]).message
    assert list(tmp_path.iterdir()) == [tmp_path / "big"], "a trial leaves nothing"


async def test_one_of_many_whose_write_is_refused_has_no_bug() -> None:
    async def write(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    (problem,) = await fan_out([1], write, Limits(at_once=1, slow_after_s=1, within_s=1))
    assert isinstance(problem, NotWrittenError)


async def test_a_refused_write_fails_a_check_where_no_answer_leaves_it_open() -> None:
    async def full() -> str:
        raise NotWrittenError("the disk is full")

    async def away() -> str:
        raise UnavailableError("no answer")

    checks = await check_all({"disk": full, "vendor": away})
    assert [check.verdict for check in checks] == [Verdict.FAILED, Verdict.UNKNOWN]


class Full(FakeRegistry):
    """A registry whose disk takes the lease, and then nothing."""

    def leases_take(self, subject: str, holder: str, *, over: str = "") -> Lease:
        assert not over
        return Lease(subject, holder, 1, 1, datetime.now(UTC) + timedelta(seconds=15))

    def leases_renew(self, held: Sequence[Lease]) -> Sequence[str]:
        assert held
        raise NotWrittenError("registry.db cannot be written: the disk is full", hint="free 100 MB")


async def test_a_lease_that_a_full_disk_cost_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease_module, "RENEW_S", 0.01)
    monkeypatch.setattr(lease_module, "RETRY_S", 0.01)
    monkeypatch.setattr(lease_module, "LEASE_S", 0.05)
    with pytest.raises(NotWrittenError, match=r"lost the lease of instance/1, .*the disk is full") as raised:
        async with LeaseKeeper(Full(), "instance/1") as keeper:
            await keeper.guard(asyncio.Event().wait())
    assert raised.value.hint.text() == "free 100 MB"


def test_another_error_of_sqlite_is_no_refusal(tmp_path: Path) -> None:
    with pytest.raises(sqlite3.OperationalError) as raised, contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.execute("SELECT nothing")
    assert disk.sqlite_not_written(tmp_path / "x.db", raised.value) is None


def test_a_registry_is_tried_by_a_real_write(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'registry.db'}"
    registry = open_registry(url, environment="local", actor="tester", sealer=lambda _new: KEYS)
    epoch = registry.epochs.now()
    log = tmp_path / "registry.db-wal"
    before = log.stat().st_size
    registry.epochs.try_to_write()
    assert log.stat().st_size > before
    assert registry.epochs.now() == epoch
    registry.close()
