"""What an agent may plant in its own home, in every path that hermes-node touches there."""

import io
import json
import os
import socket
import sqlite3
import tarfile
from pathlib import Path

import pytest

from hermesops.programs.node.state import swap
from hermesops.wire.errors import NotReadyError, RefusedError
from hermesops.wire.state import contents, databases, digest, tar_stream
from hermesops.wire.state.digest import Digest
from hermesops.wire.state.unpack import unpack
from tests.support.fakes.machines.node_home import furnish

_SECRET = b"of-somebody-else"
_NAMES = (b"new\nline", b"--checkpoint-action=exec=x", b"\xff\xfe\xf0", b" ", b"*", b"$(id)", b"a" * 255)
_PLACES = ("", "memories", "skills/weather", "cron", "pairing", "logs", ".hermes-node")


@pytest.fixture
def home(tmp_path: Path) -> Path:
    (tmp_path / "secret").write_bytes(_SECRET)
    home = tmp_path / "home"
    home.mkdir()
    furnish(home)
    return home


@pytest.fixture(params=_PLACES)
def place(home: Path, request: pytest.FixtureRequest) -> Path:
    path: Path = home / request.param
    path.mkdir(exist_ok=True)
    return path


def _packed(home: Path) -> tuple[tar_stream.Packed, bytes]:
    out = io.BytesIO()
    return tar_stream.pack(home, out), out.getvalue()


def _names(data: bytes) -> set[bytes]:
    with tarfile.open(fileobj=io.BytesIO(data), errors="surrogateescape") as held:
        return {os.fsencode(member.name) for member in held if member.isreg()}


def test_links_pipes_devices_and_sockets_are_neither_followed_nor_copied(home: Path, place: Path) -> None:
    before, _ = _packed(home)
    (place / "link").symlink_to(home.parent / "secret")
    (place / "folder").symlink_to(home.parent)
    (place / "loop").symlink_to(place)
    os.mkfifo(place / "pipe")
    os.mknod(place / "device", 0o600 | 0o020000, os.makedev(1, 5))  # /dev/zero, which never ends
    with socket.socket(socket.AF_UNIX) as listening:
        here = Path.cwd()
        os.chdir(place)
        listening.bind("socket")
        os.chdir(here)
    after, data = _packed(home)
    assert after.state == before.state == digest.digest_of(home)[0]
    assert _SECRET not in data
    assert after.files == before.files


def test_every_name_comes_back_as_it_was(home: Path, place: Path, tmp_path: Path) -> None:
    if place.name == ".hermes-node":
        return
    for number, name in enumerate(_NAMES):
        (place / os.fsdecode(name)).write_text(str(number))
    packed, data = _packed(home)
    unpack(io.BytesIO(data), tmp_path / "ours/new")
    where = tmp_path / "ours/new" / place.relative_to(home)
    for number, name in enumerate(_NAMES):
        assert (where / os.fsdecode(name)).read_text() == str(number)
    assert packed.left_out == 0


def test_our_own_folder_planted_as_a_link_leads_nowhere(home: Path) -> None:
    (home.parent / "elsewhere/work").mkdir(parents=True)
    (home.parent / "elsewhere/work/precious").write_text("mine")
    (home / ".hermes-node").symlink_to(home.parent / "elsewhere")
    _packed(home)
    assert (home.parent / "elsewhere/work/precious").read_text() == "mine"


@pytest.mark.parametrize("name", ["work", "incoming", "ready", "former"])
def test_names_of_ours_planted_as_links_or_files_are_replaced(home: Path, name: str) -> None:
    outside = home.parent / "elsewhere"
    outside.mkdir()
    (outside / "precious").write_text("mine")
    planted = home / ".hermes-node" / name
    for is_link in (True, False):
        planted.parent.mkdir(exist_ok=True)
        if is_link:
            planted.symlink_to(outside)
        else:
            planted.write_text("in the way")
        packed, data = _packed(home)
        unpack(io.BytesIO(data), swap.incoming(home))
        swap.make_ready(home)
        swap.switch(home)
        assert digest.digest_of(home)[0] == packed.state
        assert (outside / "precious").read_text() == "mine"
        swap.forget(home)


def test_a_file_that_is_nearly_all_hole_is_left_out_and_counted(home: Path) -> None:
    with (home / "huge").open("wb") as file:
        file.truncate(1 << 36)
    packed, data = _packed(home)
    assert packed.left_out == 1
    assert b"huge" not in _names(data)


@pytest.mark.parametrize("name", ["memories/USER.md", "logs/agent.log", "cron/jobs.json"])
def test_a_file_that_shrinks_while_it_is_read_spoils_no_copy(
    home: Path, tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    (home / name).write_bytes(b"x" * 5000)
    real = tar_stream._add

    def cuts(tar_file: tarfile.TarFile, item: contents.Item, *rest: object) -> bool:
        if os.fsdecode(item.name) == name:
            os.truncate(home / name, 10)
        return real(tar_file, item, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(tar_stream, "_add", cuts)
    packed, data = _packed(home)
    assert packed.left_out == (name != "cron/jobs.json")  # a document is read first, and is what it is by then
    assert unpack(io.BytesIO(data), tmp_path / "ours/new").state == packed.state
    came = (tmp_path / "ours/new" / name).read_bytes()
    assert came.rstrip(b"\0") == b"x" * 10


def test_a_small_hole_is_copied(home: Path, tmp_path: Path) -> None:
    with (home / "holes").open("wb") as file:
        file.truncate(1 << 20)
    packed, data = _packed(home)
    unpack(io.BytesIO(data), tmp_path / "ours/new")
    assert packed.left_out == 0
    assert (tmp_path / "ours/new/holes").stat().st_size == 1 << 20


def test_folders_without_end_end_nothing(home: Path) -> None:
    """Deeper than a path may be long, and than Python recurses; also where our own names are."""
    for place in (home, home / ".hermes-node", home / ".hermes-node/incoming", home / ".hermes-node/former"):
        place.mkdir(exist_ok=True)
        _dig(place)
    try:
        packed, _ = _packed(home)
        assert packed.left_out >= 1
        assert packed.state == digest.digest_of(home)[0]
        contents.remove(home / "deeper")
        unpack(io.BytesIO(_packed(home)[1]), swap.incoming(home))
        swap.make_ready(home)
        swap.switch(home)
        swap.forget(home)
        assert not (home / ".hermes-node").exists()
    finally:
        contents.remove(home)  # else pytest could not


def _dig(place: Path) -> None:
    here = os.open(place, os.O_RDONLY)
    for _ in range(1500):
        os.mkdir("deeper", dir_fd=here)
        below = os.open("deeper", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)


@pytest.mark.parametrize(
    "content",
    [b"SQLite format 3\0 and no more", b"SQLite format 3\0" + b"\xff" * 8192, b"no database"],
    ids=["short", "nonsense", "none"],
)
def test_a_database_that_is_none_keeps_its_bytes(home: Path, tmp_path: Path, content: bytes) -> None:
    for name in ("state.db", "other.db"):
        for end in ("", "-wal", "-shm"):
            (home / f"{name}{end}").unlink(missing_ok=True)
        (home / name).write_bytes(content)
    packed, data = _packed(home)
    assert packed.state["messages"]["count"] == -1
    assert packed.state == digest.digest_of(home)[0]
    unpack(io.BytesIO(data), tmp_path / "ours/new")
    assert (tmp_path / "ours/new/state.db").read_bytes() == content
    assert (tmp_path / "ours/new/other.db").read_bytes() == content


def test_a_database_damaged_in_its_middle_is_copied_and_said_to_be_unreadable(home: Path, tmp_path: Path) -> None:
    database = sqlite3.connect(home / "state.db")
    database.execute("PRAGMA journal_mode=DELETE")
    database.executemany("INSERT INTO messages (content, timestamp) VALUES (?, 1.5)", [("x" * 900,)] * 400)
    database.commit()
    database.close()
    with (home / "state.db").open("r+b") as file:
        file.seek(8192)
        file.write(b"\xff" * 65536)
    packed, data = _packed(home)
    assert packed.state["messages"]["count"] == -1
    assert packed.state == digest.digest_of(home)[0]
    assert unpack(io.BytesIO(data), tmp_path / "ours/new").state == packed.state


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(databases, "_LOCKED_S", 0.01)


@pytest.mark.usefixtures("impatient")
def test_a_locked_database_of_the_agents_is_no_copy_and_a_strangers_is_left_out(home: Path) -> None:
    with _held(home / "planted.db"):
        packed, data = _packed(home)
        assert packed.left_out == 1
        assert b"planted.db" not in _names(data)
    with _held(home / "kanban.db"), pytest.raises(NotReadyError, match=r"kanban\.db is locked"):
        _packed(home)


class _held:  # noqa: N801 - reads as a verb
    """Holds a database so that nobody reads it."""

    def __init__(self, path: Path) -> None:
        self._database = sqlite3.connect(path, isolation_level=None)
        self._database.execute("CREATE TABLE a (b)")

    def __enter__(self) -> None:
        self._database.execute("BEGIN EXCLUSIVE")

    def __exit__(self, *_: object) -> None:
        self._database.close()


def test_a_database_in_use_is_copied_at_one_moment(home: Path, tmp_path: Path) -> None:
    writer = sqlite3.connect(home / "state.db", isolation_level=None)
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', 'half', 1.0)")
    packed, data = _packed(home)
    writer.execute("COMMIT")
    writer.close()
    assert packed.state["messages"]["count"] == 0
    assert digest.digest_of(home)[0]["messages"]["count"] == 1
    unpack(io.BytesIO(data), tmp_path / "ours/new")


@pytest.mark.parametrize(
    "content",
    [b"[" * 100_000, b"null", b'{"jobs": 3}', b'{"jobs": [3]}', b"\xff", b'{"jobs": [{"id": {"a": [1]}}]}', b""],
    ids=["deep", "null", "number", "numbers", "bytes", "nested", "empty"],
)
def test_jobs_and_pairings_that_are_nonsense_are_copied(home: Path, content: bytes, tmp_path: Path) -> None:
    (home / "cron/jobs.json").write_bytes(content)
    (home / "pairing/telegram-approved.json").write_bytes(content)
    packed, data = _packed(home)
    assert packed.state == digest.digest_of(home)[0] == unpack(io.BytesIO(data), tmp_path / "ours/new").state
    assert (tmp_path / "ours/new/cron/jobs.json").read_bytes() == content


@pytest.mark.parametrize("name", ["../out", "/etc/passwd", "a/../../out"])
def test_an_archive_with_a_name_that_leads_out_is_refused(tmp_path: Path, name: str) -> None:
    _refused(tmp_path, tarfile.TarInfo(name), "a name that leads out of it")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE])
def test_an_archive_with_anything_but_files_and_folders_is_refused(tmp_path: Path, kind: bytes) -> None:
    entry = tarfile.TarInfo("a")
    entry.type, entry.linkname = kind, "/etc/passwd"
    _refused(tmp_path, entry, "something else than files and folders")


def _refused(tmp_path: Path, entry: tarfile.TarInfo, why: str) -> None:
    """Nothing but this entry is wrong with the archive: a plain file in its place is taken."""
    assert unpack(_ended(tarfile.TarInfo("a")), tmp_path / "ours/plain").files == 1
    contents.remove(tmp_path / "ours/plain")
    with pytest.raises(RefusedError, match=why):
        unpack(_ended(entry), tmp_path / "ours/new")
    assert list((tmp_path / "ours").iterdir()) == []


def _ended(entry: tarfile.TarInfo) -> io.BytesIO:
    """A whole archive of one entry, which amounts to no state."""
    data, times = io.BytesIO(), tar_stream.Times()
    times.add(0)
    with tarfile.open(fileobj=data, mode="w") as tar_file:
        tar_file.addfile(entry)
        tar_stream.write_trailer(tar_file, Digest().result(), 1, times)
    data.seek(0)
    return data


def test_an_archive_that_goes_on_after_its_end_is_refused(tmp_path: Path) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar_file:
        tar_stream.write_trailer(tar_file, Digest().result(), 0, tar_stream.Times())
        tar_file.addfile(tarfile.TarInfo("a"))
    data.seek(0)
    with pytest.raises(RefusedError, match="has data after its end"):
        unpack(data, tmp_path / "ours/new")


def test_an_archive_that_lacks_a_file_is_refused(tmp_path: Path) -> None:
    data, times = io.BytesIO(), tar_stream.Times()
    times.add(0)
    with tarfile.open(fileobj=data, mode="w") as tar_file:
        tar_file.addfile(tarfile.TarInfo("a"))
        tar_stream.write_trailer(tar_file, Digest().result(), 2, times)
    data.seek(0)
    with pytest.raises(RefusedError, match="differs from the original"):
        unpack(data, tmp_path / "ours/new")


def test_a_link_that_takes_a_files_place_after_it_was_seen_is_not_followed(home: Path) -> None:
    (home / "link").symlink_to(home.parent / "secret")
    with pytest.raises(OSError, match="symbolic links"):
        contents.opened(home, b"link")


def test_what_a_repair_of_the_file_system_found_stays_in_its_place(home: Path) -> None:
    (home / "lost+found").mkdir()
    (home / "lost+found/#12").write_text("found")
    unpack(io.BytesIO(_packed(home)[1]), swap.incoming(home))
    swap.make_ready(home)
    swap.switch(home)
    assert (home / "lost+found/#12").exists()


def test_a_state_that_is_ready_is_not_forgotten_before_it_is_in_place(home: Path) -> None:
    packed, data = _packed(home)
    (home / "SOUL.md").write_text("Of before the restore.")
    unpack(io.BytesIO(data), swap.incoming(home))
    swap.make_ready(home)
    swap.forget(home)
    swap.switch(home)
    assert digest.digest_of(home)[0] == packed.state


def test_an_archive_cut_anywhere_is_refused(home: Path, tmp_path: Path) -> None:
    _, data = _packed(home)
    for length in (0, 1, 512, 1024, len(data) // 2, len(data) - 11_000):
        with pytest.raises(RefusedError, match="was cut short"):
            unpack(io.BytesIO(data[:length]), tmp_path / "ours/new")
        assert not (tmp_path / "ours/new").exists()


@pytest.mark.parametrize("mtime_ns", [0, 1, 1_700_000_000_123_456_789, -5_000_000_000])
def test_times_and_the_right_to_execute_come_back(home: Path, tmp_path: Path, mtime_ns: int) -> None:
    (home / "tool").write_text("#!/bin/sh")
    (home / "tool").chmod(0o755)
    os.utime(home / "tool", ns=(0, mtime_ns))
    unpack(io.BytesIO(_packed(home)[1]), tmp_path / "ours/new")
    came = (tmp_path / "ours/new/tool").stat()
    assert (came.st_mtime_ns, came.st_mode & 0o777) == (mtime_ns, 0o700)


def test_the_same_content_is_the_same_bytes_up_to_the_ending(home: Path, tmp_path: Path) -> None:
    (home / "tool").write_text("one")
    _, data = _packed(home)
    unpack(io.BytesIO(data), tmp_path / "ours/new")
    for path in (tmp_path / "ours/new").rglob("*"):
        os.utime(path, (7, 7))
    _, again = _packed(tmp_path / "ours/new")
    head, mark, _ = data.partition(tar_stream.GAP.encode())
    assert mark
    assert again.startswith(head)


@pytest.mark.parametrize("content", [b"", b"\0" * 7, b"\0" * 16], ids=["none", "cut", "more"])
def test_an_archive_that_tells_other_times_than_its_files_is_refused(tmp_path: Path, content: bytes) -> None:
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as tar_file:
        tar_file.addfile(tarfile.TarInfo("a"))
        times = tarfile.TarInfo(tar_stream.TIMES)
        times.size = len(content)
        tar_file.addfile(times, io.BytesIO(content))
    data.seek(0)
    with pytest.raises(RefusedError, match="lacks the times of its files"):
        unpack(data, tmp_path / "ours/new")


def test_a_time_beyond_all_files_is_told_as_the_nearest() -> None:
    times = tar_stream.Times()
    for mtime_ns in (1 << 70, -1 << 70, 5):
        times.add(mtime_ns)
    assert list(tar_stream.read_times(io.BytesIO(times.to_bytes()), 3)) == [(1 << 63) - 1, 1 - (1 << 63), 5]


def test_an_archive_with_another_content_than_it_says_is_refused(home: Path, tmp_path: Path) -> None:
    _, data = _packed(home)
    assert b"Has a sister." in data
    with pytest.raises(RefusedError, match="differs from the original"):
        unpack(io.BytesIO(data.replace(b"Has a sister.", b"Has a bruiser")), tmp_path / "ours/new")


def test_what_the_agent_rewrites_without_meaning_is_no_change(home: Path) -> None:
    before = digest.digest_of(home)[0]
    jobs = json.loads((home / "cron/jobs.json").read_text())
    jobs["jobs"][0]["last_run_at"] = "2026-01-01T00:00:00"
    (home / "cron/jobs.json").write_text(json.dumps(jobs, indent=4))
    (home / "skills/.usage.json").write_text("{}")
    (home / "cron/ticker_heartbeat").write_text("1")
    (home / "pairing/telegram-pending.json").write_text("{}")
    database = sqlite3.connect(home / "state.db")
    database.execute("UPDATE sessions SET ended_at = 5.0, message_count = 7")
    database.commit()
    database.close()
    assert digest.digest_of(home)[0] == before


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("memory", "UPDATE"),
        ("skills", "UPDATE"),
        ("cron", "UPDATE"),
        ("pairings", "UPDATE"),
        ("messages", "INSERT INTO messages (session_id, role, content, timestamp) VALUES ('s1', 'user', 'x', 1.0)"),
        ("sessions", "UPDATE sessions SET title = 'Other'"),
    ],
)
def test_each_kind_tells_a_change_of_its_own_and_of_no_other(home: Path, kind: str, change: str) -> None:
    before = digest.digest_of(home)[0]
    match kind:
        case "memory":
            (home / "memories/MEMORY.md").write_text("new")
        case "skills":
            (home / "skills/weather/SKILL.md").write_text("new")
        case "cron":
            text = (home / "cron/jobs.json").read_text()
            (home / "cron/jobs.json").write_text(text.replace("0 9 * * *", "0 8 * * *"))
        case "pairings":
            (home / "pairing/telegram-approved.json").write_text('{"78": {}}')
        case _:
            database = sqlite3.connect(home / "state.db")
            database.execute(change)
            database.commit()
            database.close()
    after = digest.digest_of(home)[0]
    assert [name for name in before if after[name] != before[name]] == [kind]
