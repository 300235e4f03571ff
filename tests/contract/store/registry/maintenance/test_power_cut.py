"""After a power cut an SQLite registry holds its first transactions, each whole, and tells when some are lost."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError
from hermesops.store.registry.audit.anchor import Anchor
from tests.support.real.stores.registries import registry_at

_HEADER, _FRAME = 32, 24 + 4096
"""Bytes of a WAL's header and of each frame: a page behind its own header. Source: sqlite.org/fileformat2.html §4."""


def test_every_commit_is_on_the_disk_before_it_counts(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    for connect in (registry._database.reading, registry._database.writing):
        with connect() as connection:
            assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
            assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2, "FULL"
    registry.close()


def test_a_tail_of_the_journal_that_never_reached_the_disk_takes_whole_transactions_with_it(tmp_path: Path) -> None:
    live = tmp_path / "live"
    registry = registry_at(f"sqlite:///{live}/registry.db", anchor=Anchor(live / "anchor"))
    sizes = []
    for number in range(1, 7):
        registry.audit.append("command_run", f"instance/{number}", why="because")
        sizes.append((live / "registry.db-wal").stat().st_size)
    cuts = {cut for size in sizes for cut in (size, size - 1, size - _FRAME, size - _FRAME + 30) if cut > _HEADER}
    numbers = set()
    for cut in sorted({0, _HEADER, *cuts}):
        left = tmp_path / f"cut-{cut}"
        left.mkdir()
        for name in ("registry.db", "anchor"):
            shutil.copy(live / name, left / name)
        (left / "registry.db-wal").write_bytes((live / "registry.db-wal").read_bytes()[:cut])
        numbers.add(_entries_after(left, at_least=sum(size <= cut for size in sizes)))
    registry.close()
    assert {1, 2, 3, 4, 5, 6} <= numbers


def _entries_after(left: Path, *, at_least: int) -> int:
    """Open what is left; how many entries there are."""
    if not _has_tables(left / "registry.db"):
        return 0  # cut before the tables were committed: nothing was
    registry = registry_at(f"sqlite:///{left}/registry.db", anchor=Anchor(left / "anchor"))
    subjects = [entry.subject for entry in reversed(registry.audit.list())]
    assert subjects == [f"instance/{number}" for number in range(1, len(subjects) + 1)], "the first ones, in order"
    assert len(subjects) >= at_least, "what was whole in the journal is there"
    findings = [finding.id for finding in registry.audit.check().findings]
    assert findings == list(range(len(subjects) + 1, 7)), "the missing ones are named"
    if findings:
        with pytest.raises(BrokenInvariantError, match="lacks audit entry 6"):
            registry.audit.append("command_run", "instance/7", why="because")
    registry.epochs.open("after a power cut")
    registry.audit.append("command_run", "instance/7", why="because")
    assert registry.audit.check().findings == ()
    registry.close()
    return len(subjects)


def _has_tables(file: Path) -> bool:
    connection = sqlite3.connect(file)
    count = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    connection.close()
    return bool(count)
