"""A damaged or lost SQLite registry is never overwritten; there are good copies, and they are put back whole."""

import sqlite3
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.store.registry import Registry
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.maintenance.backup import Copies, Copy
from hermesops.store.registry.maintenance.restore import Restored, restore
from tests.support.real.stores.registries import KEYS, registry_at

_PAGE = 4096


class Place:
    """A registry's file with its copies and anchor."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "registry.db"
        self.url = f"sqlite:///{self.file}"
        self.copies = Copies(self.file, keep=3)
        self.anchor = Anchor(folder / "audit.anchor")

    def open(self) -> Registry:
        return registry_at(self.url, anchor=self.anchor, copies=self.copies)

    def write(self, *numbers: int) -> None:
        registry = self.open()
        for number in numbers:
            registry.audit.append("command_run", f"instance/{number}", why="because")
        registry.close()

    def restore(self, copy: Copy, *, over: bool = False) -> Restored:
        return restore(
            self.copies,
            copy.file,
            open_at=lambda url: registry_at(url, keys=KEYS),
            anchor=self.anchor,
            over_healthy=over,
            why="drill",
        )

    def subjects(self) -> list[str]:
        registry = self.open()
        names = [entry.subject for entry in reversed(registry.audit.list())]
        registry.close()
        return names


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "state")
    place.write(1, 2)
    return place


def damage(file: Path, how: str) -> bytes:
    content = bytearray(file.read_bytes())
    match how:
        case "junk":
            content = bytearray(b"this was a database once " * 1000)
        case "half of it":
            del content[len(content) // 2 // _PAGE * _PAGE :]
        case "odd end":
            del content[len(content) // 2 + 77 :]
        case "header":
            content[:100] = bytes(100)
        case "wrong page":
            content[_PAGE : 2 * _PAGE] = content[3 * _PAGE : 4 * _PAGE]
        case "zeros":
            content[_PAGE:] = bytes(len(content) - _PAGE)
        case "empty":
            content.clear()
    file.write_bytes(content)
    return bytes(content)


# Copies


def test_the_first_write_of_an_hour_makes_one_copy(place: Place) -> None:
    place.write(3)
    [copy] = place.copies.list()
    assert (copy.reason, copy.taken_at.date()) == ("hourly", datetime.now(UTC).date())
    assert oct(copy.file.stat().st_mode & 0o777) == "0o600"
    assert oct(place.copies.folder.stat().st_mode & 0o777) == "0o700"


def test_a_new_hour_makes_another_and_of_each_kind_only_so_many_stay(place: Place) -> None:
    [now] = place.copies.list()
    for hours in (1, 2, 3, 30, 31, 60, 90):
        earlier = (now.taken_at - timedelta(hours=hours)).strftime("%Y%m%dT%H%M%S.%f")
        now.file.rename(now.file.with_name(f"registry-{earlier}Z-hourly.db"))
        place.write(hours)
        [now, *_] = place.copies.list()
    for _ in range(5):
        place.copies.take("before-restore")
    kept = place.copies.list()
    hourly = [round((now.taken_at - copy.taken_at) / timedelta(hours=1)) for copy in kept if copy.reason == "hourly"]
    assert hourly[:3] == [0, 1, 2]
    assert 4 <= len(hourly) <= 6, "the newest three, and the newest of three days"
    assert any(hours >= 30 for hours in hourly)
    assert len([copy for copy in kept if copy.reason == "before-restore"]) == 3


def test_reading_makes_no_copy(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.subjects()
    assert place.copies.list() == ()


@pytest.mark.turns(4)
def test_processes_that_write_at_once_make_one_copy(tmp_path: Path) -> None:
    place = Place(tmp_path)
    script = textwrap.dedent(
        f"""
        from pathlib import Path
        from tests.contract.store.registry.maintenance.test_copies import Place
        Place(Path({str(tmp_path)!r})).write(1, 2, 3)
        """
    )
    running = [subprocess.Popen([sys.executable, "-c", script], cwd=Path.cwd()) for _ in range(3)]
    assert [process.wait(timeout=60) for process in running] == [0, 0, 0]
    assert [copy.reason for copy in place.copies.list()] == ["hourly"]
    registry = place.open()
    report = registry.audit.check()
    registry.close()
    assert (report.findings, report.entries, report.anchors) == ((), 9, 9)


def test_a_damaged_registry_is_not_copied_over_good_copies(place: Place) -> None:
    before = place.copies.list()
    damage(place.file, "zeros")
    with pytest.raises(BrokenInvariantError, match="is damaged"):
        place.copies.take("by-hand")
    assert place.copies.list() == before
    assert [file.name for file in place.copies.folder.iterdir() if file.name.startswith(".draft")] == []


# Damage


@pytest.mark.parametrize("how", ["junk", "half of it", "odd end", "header", "wrong page", "zeros", "empty"])
def test_a_damaged_registry_is_named_kept_and_brought_back(place: Place, how: str) -> None:
    place.copies.take("by-hand")
    content = damage(place.file, how)
    with pytest.raises(BrokenInvariantError, match=r"is damaged|is missing") as damaged:
        place.write(4)
    assert "hermesops registry restore --latest" in str(damaged.value.hint)
    assert "\n" not in str(damaged.value)
    assert place.file.read_bytes() == content, "nobody wrote to it"
    done = place.restore(place.copies.list()[0])
    assert done.set_aside is not None
    assert done.set_aside.read_bytes() == content, "it is set aside as it was"
    assert place.subjects() == ["instance/1", "instance/2", "registry", "registry"]
    place.write(5)


def test_a_registry_that_is_gone_is_not_begun_anew(place: Place) -> None:
    place.file.unlink()
    with pytest.raises(BrokenInvariantError, match="is missing, although there was one") as gone:
        place.open()
    assert "hermesops registry rebuild" in str(gone.value.hint)
    assert not place.file.exists()
    for copy in place.copies.list():
        copy.file.unlink()
    with pytest.raises(BrokenInvariantError, match="is missing"):
        place.open()


def test_a_registry_that_may_not_be_written_is_refused(place: Place) -> None:
    registry = place.open()
    with registry._database._engine.connect() as connection:
        connection.exec_driver_sql("PRAGMA query_only = ON")  # SQLite answers as for a file without the right to write
    with pytest.raises(RefusedError, match="may not be written"):
        registry.audit.append("command_run", "instance/3", why="because")
    registry.close()


def test_a_registry_locked_for_long_is_unavailable(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hermesops.store.registry.database._BUSY_MS", 50)
    registry = place.open()
    holder = sqlite3.connect(place.file, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="is locked by another process"):
        registry.audit.append("command_run", "instance/3", why="because")
    holder.execute("ROLLBACK")
    holder.close()
    registry.audit.append("command_run", "instance/3", why="because")
    registry.close()


# Restoring


def test_a_restored_registry_fences_what_was_given_out_since(place: Place) -> None:
    copy = place.copies.take("by-hand")
    registry = place.open()
    lease = registry.leases.take("instance/1", "one")
    registry.audit.append("command_run", "instance/3", why="because")
    registry.close()
    damage(place.file, "zeros")
    done = place.restore(copy)
    registry = place.open()
    assert (done.epoch, registry.leases.take("after", "restore").epoch) == (2, 2)
    taken = registry.leases.take("instance/1", "two")
    assert (taken.epoch, taken.counter) > (lease.epoch, lease.counter)
    assert registry.leases.renew([lease]) == {lease.subject}
    report = registry.audit.check()
    assert (report.findings, report.lost) == ((), 1)
    [noted] = [entry for entry in registry.audit.list() if entry.action == "registry_restored"]
    assert (noted.why, noted.after) == ("drill", {"copy": copy.file.name})
    registry.close()


def test_the_same_copy_restored_twice_opens_two_epochs(place: Place) -> None:
    copy = place.copies.take("by-hand")
    epochs = []
    for _ in range(2):
        damage(place.file, "junk")
        epochs.append(place.restore(copy).epoch)
        place.write(7)
    assert epochs == [2, 3]
    registry = place.open()
    assert registry.audit.check().findings == ()
    registry.close()


def test_a_healthy_registry_is_restored_over_only_when_named(place: Place) -> None:
    copy = place.copies.take("by-hand")
    place.write(3)
    with pytest.raises(RefusedError, match="is intact") as refused:
        place.restore(copy)
    assert "--over" in str(refused.value.hint)
    assert place.subjects() == ["instance/1", "instance/2", "instance/3"]
    reader = place.open()
    assert place.restore(copy, over=True).set_aside is None
    after = ["instance/1", "instance/2", "registry", "registry"]
    assert place.subjects() == after
    assert [entry.subject for entry in reversed(reader.audit.list())] == after, "who has it open sees it too"
    reader.close()
    assert place.copies.list()[0].reason == "before-restore"


def test_a_bad_copy_is_refused_and_nothing_touched(place: Place, tmp_path: Path) -> None:
    content = damage(place.file, "zeros")
    copy = place.copies.list()[0]
    good = copy.file.read_bytes()
    for bad, words in (
        (b"junk" * 2000, "is damaged itself"),
        (good[:_PAGE] + bytes(len(good) - _PAGE), "is damaged itself"),
        (b"", "is no copy of a registry"),
    ):
        copy.file.write_bytes(bad)
        with pytest.raises(RefusedError, match=words):
            place.restore(copy)
    copy.file.write_bytes(good)
    newer = sqlite3.connect(copy.file)
    newer.execute("UPDATE alembic_version SET version_num = '9999'")
    newer.commit()
    newer.close()
    with pytest.raises(RefusedError, match="an older hermesops"):
        place.restore(copy)
    assert place.file.read_bytes() == content
    assert sorted(file.name for file in (tmp_path / "state").iterdir() if "restoring" in file.name) == []
