"""Whatever an agent had copied: proving it ends in bounded time and room, without an operator's rights, and alone."""

import contextlib
import io
import json
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.backup.proof import restored_state
from hermesops.agents.backup.proof.confinement import Limits
from hermesops.agents.backup.proof.restore_check import Proof
from hermesops.agents.backup.store.restic import Restic
from hermesops.base.fan_out import Limits as Places
from hermesops.base.fan_out import fan_out
from hermesops.base.waiting import pause_blocking
from hermesops.errors import HermesError, UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.model.recovery.backup import Backup, Credential
from hermesops.model.recovery.state import State
from hermesops.wire.state import tar_stream
from hermesops.wire.state.unpack import Bounds
from tests.support.fakes.machines.node_home import furnish
from tests.support.hostile.backup_proofs import NOW, QUICK, KnownKeys, Proofs, Rows, entry, tar
from tests.support.hostile.databases import DATABASES, flipped
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.turns(30)

ENDS_S = 60.0
"""Seconds after which a proof of next to nothing has not ended, on a computer with much else to do."""

_HOSTILE = [name for name, planted in DATABASES.items() if planted.says]
_HARMLESS = [name for name, planted in DATABASES.items() if not planted.says]


@pytest.fixture(autouse=True)
def _temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Look that no test leaves a byte where backups are restored, or a process that reads one."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    yield
    assert list(place.iterdir()) == []
    left = _readers()
    ends = time.monotonic() + ENDS_S
    while left and time.monotonic() < ends:  # those of another worker's tests end by themselves
        pause_blocking(0.1)
        left &= _readers()
    assert left == set()


def _readers() -> set[str]:
    """Ids of the processes of this computer that read restored states."""
    names = set()
    for process in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it ended meanwhile
            if "restored_state" in process.read_text(errors="replace"):
                names.add(process.parent.name)
    return names


@pytest.fixture
def proofs(tmp_path: Path) -> Proofs:
    require(sys.platform == "linux", "namespaces")
    folder = tmp_path / "archives"
    folder.mkdir()
    return Proofs(folder)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    home = tmp_path / "home"
    home.mkdir()
    furnish(home)
    return home


def _packed(home: Path) -> tuple[bytes, State]:
    """A home as hermes-node copies it, which has to end as well."""
    out, begun = io.BytesIO(), time.monotonic()
    state = tar_stream.pack(home, out).state
    assert time.monotonic() - begun < ENDS_S
    return out.getvalue(), State.from_json(state)


async def _proved(proofs: Proofs, backup: Backup) -> Backup:
    begun = time.monotonic()
    proved = await proofs.prove(backup)
    assert time.monotonic() - begun < ENDS_S
    return proved


async def test_a_backup_of_an_honest_agent_is_proved_without_rights(proofs: Proofs, home: Path) -> None:
    proved = await _proved(proofs, proofs.archive(*_packed(home)))
    assert proved.is_proved
    assert any("without network, other files and new processes" in line for line in proofs.told)


@pytest.mark.parametrize("name", _HOSTILE)
async def test_a_hostile_database_does_not_prove(proofs: Proofs, home: Path, name: str) -> None:
    DATABASES[name].plant(home / "state.db")
    proved = await _proved(proofs, proofs.archive(*_packed(home), size=16 << 20))
    assert not proved.is_proved
    assert DATABASES[name].says in proved.checked


@pytest.mark.parametrize("name", ["a view that never ends", "a column of half a gigabyte"])
async def test_a_database_that_turned_hostile_since_does_not_prove(proofs: Proofs, home: Path, name: str) -> None:
    """As one of an older hermes-node, which read it and noted what it was made to read."""
    _, before = _packed(home)
    DATABASES[name].plant(home / "state.db")
    data, _ = _packed(home)
    proved = await _proved(proofs, proofs.archive(data, before, size=16 << 20))
    assert not proved.is_proved
    assert DATABASES[name].says in proved.checked


@pytest.mark.parametrize("name", _HARMLESS)
async def test_what_is_only_beside_the_tables_is_never_looked_at(proofs: Proofs, home: Path, name: str) -> None:
    DATABASES[name].plant(home / "state.db")
    assert (await _proved(proofs, proofs.archive(*_packed(home)))).is_proved


@pytest.mark.parametrize("seed", range(6))
async def test_damaged_pages_end_alike_on_both_sides(proofs: Proofs, home: Path, seed: int) -> None:
    flipped(seed)(home / "state.db")
    data, state = _packed(home)
    proved = await _proved(proofs, proofs.archive(data, state))
    assert proved.is_proved == all(part.count >= 0 for part in state.parts.values())


_ARCHIVES: dict[str, tuple[bytes, str]] = {
    "a link": (tar(entry("a", lambda e: setattr(e, "type", tarfile.SYMTYPE))), "something else than files"),
    "a hard link": (tar(entry("a", lambda e: setattr(e, "type", tarfile.LNKTYPE))), "something else than files"),
    "a pipe": (tar(entry("a", lambda e: setattr(e, "type", tarfile.FIFOTYPE))), "something else than files"),
    "a device": (tar(entry("a", lambda e: setattr(e, "type", tarfile.CHRTYPE))), "something else than files"),
    "a sparse file": (
        tar(entry("a", lambda e: setattr(e, "type", tarfile.GNUTYPE_SPARSE))),
        "something else than files",
    ),
    "headers of another format": (tar(entry("é" * 200), format_=tarfile.PAX_FORMAT), "something else than files"),
    "a name that leads out": (tar(entry("../../etc/passwd")), "leads out of it"),
    "a name without an end": (tar(entry("a" * 100_000)), "beyond all measure"),
    "a long name": (tar(entry("a" * 300)), "no file can have"),
    "folders within folders": (tar(entry("a/" * 1890 + "a")), ""),
    "folders within folders without an end": (tar(entry("a/" * 3000 + "a")), "beyond all measure"),
    "a file twice": (tar(entry("a"), entry("a")), "no file can have"),
    "a file that is a folder": (tar(entry("a"), entry("a/b")), "no file can have"),
    "a file larger than it may be": (tar(entry("a", lambda e: setattr(e, "size", 1 << 42))), "more than the"),
    "nothing": (b"", "cut short"),
    "noise": (os.urandom(100_000), "is malformed"),
    "its end twice": (tar() + tar(), ""),
}


@pytest.mark.parametrize("name", _ARCHIVES)
async def test_a_hostile_archive_does_not_prove(proofs: Proofs, name: str) -> None:
    data, says = _ARCHIVES[name]
    proved = await _proved(proofs, proofs.archive(data, State({})))
    assert not proved.is_proved
    assert says in proved.checked


_HEADER = "import tarfile\nh = tarfile.TarInfo('a')\n"


async def test_more_files_than_a_home_may_have_end_early(proofs: Proofs) -> None:
    backup = proofs.script(f"{_HEADER}for n in range(10**7):\n h.name = str(n)\n out.write(h.tobuf())")
    assert (await _proved(proofs, backup)).checked == "the copy holds more than 2000 files and folders"


async def test_zeros_are_taken_as_far_as_they_were_announced(proofs: Proofs) -> None:
    backup = proofs.script(
        f"{_HEADER}h.size = 80 * 10**9\nout.write(h.tobuf(tarfile.GNU_FORMAT))\nwhile 1: out.write(bytes(1 << 20))"
    )
    assert "more than the 17825792 bytes" in (await _proved(proofs, backup)).checked


async def test_room_is_looked_at_before_anything_is_fetched(proofs: Proofs) -> None:
    with pytest.raises(UnavailableError, match=r"needs 1000000\.\d GB; .* are free"):
        await _proved(proofs, proofs.script("raise SystemExit(1)", size=10**15))


def test_a_disk_that_fills_up_keeps_what_others_need(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored_state, "_STATE", tmp_path / "state")
    data = io.BytesIO(tar((tarfile.TarInfo("a"), bytes(2 << 20))))
    report = restored_state._read(data, Bounds(room=1 << 60), Limits(1, 1, 1))
    assert report == {
        "error": "the backup cannot be unpacked: No space left on device",
        "kind": restored_state.NOT_HERE,
    }


@pytest.mark.parametrize(
    "text",
    ["out.write(open('/dev/zero', 'rb').read(1 << 20) * 3)", "out.write(b'a' * (1 << 20) * 3)"],
    ids=["zeros", "letters"],
)
async def test_a_stream_that_is_no_archive_ends(proofs: Proofs, text: str) -> None:
    assert not (await _proved(proofs, proofs.script(f"while 1: {text}"))).is_proved


async def test_a_repository_that_says_nothing_is_waited_for_so_long(proofs: Proofs) -> None:
    proofs.allowance = replace(QUICK, least_s=2, most_s=2)
    backup = proofs.script("import time\ntime.sleep(600)")
    with pytest.raises(UnavailableError, match="not proved within 2 s"):
        await _proved(proofs, backup)


async def test_processor_time_has_an_end(proofs: Proofs) -> None:
    proofs.allowance = replace(QUICK, processor_s=1, bytes_per_s=1e12, members=10**7)
    backup = proofs.script(f"{_HEADER}for n in range(10**7):\n h.name = str(n)\n out.write(h.tobuf())")
    assert (await _proved(proofs, backup)).checked == "reading the backup takes more than 1 s of processor time"


async def test_memory_has_an_end(proofs: Proofs, home: Path) -> None:
    (home / "cron/jobs.json").write_text(f"[{'[],' * 4_000_000}[]]")
    proofs.allowance = replace(QUICK, memory_bytes=192 << 20)
    data = tar((tarfile.TarInfo("cron/jobs.json"), (home / "cron/jobs.json").read_bytes()))
    backup = proofs.archive(data, State({}), size=16 << 20)
    assert (await _proved(proofs, backup)).checked == "reading the backup takes more than 192 MiB of memory"


_PROBE = """
import sys; sys.path.insert(0, sys.argv[1])
import json, os, signal, socket, sqlite3
from pathlib import Path
from hermesops.agents.backup.proof import confinement
folder, port, user, parent = sys.argv[2], int(sys.argv[3]), int(sys.argv[4]), os.getppid()
if user:
    import ctypes
    os.setgroups([]); os.setresgid(user, user, user); os.setresuid(user, user, user)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
if sys.argv[5] == "all calls":
    confinement._forbid_calls = bool
confinement.confine(Path(folder), confinement.Limits(1 << 20, 1 << 29, 20))
def tried(do):
    try:
        do()
    except Exception as error:
        return type(error).__name__
    return "done"
told = {
    "network": tried(lambda: socket.socket().connect((b"127.0.0.1", port))),
    "files": tried(lambda: open("/etc/passwd")),
    "processes": tried(os.fork),
    "others": tried(lambda: os.kill(parent, signal.SIGKILL)),
    "programs": tried(lambda: os.execv("/bin/sh", ["sh"])),
    "link": tried(lambda: os.symlink("/", "out")),
    "large": tried(lambda: Path("large").write_bytes(bytes(2 << 20))),
    "memory": tried(lambda: bytearray(1 << 30)),
    "own": tried(lambda: Path("small").write_bytes(b"x")),
    "root": os.listdir("/"), "user": os.getuid(), "descriptors": tried(lambda: os.fstat(5)),
}
os.write(1, json.dumps(told).encode())
"""


def _probed(user: int, calls: str) -> dict[str, Any]:
    """What a confined process can do, that tries."""
    folder = Path(tempfile.mkdtemp(dir="/tmp"))
    os.chown(folder, user, user)
    try:
        with socket.create_server(("127.0.0.1", 0)) as listening:
            words = [sys.executable, "-I", "-c", _PROBE, str(Path(__file__).parents[2]), str(folder)]
            words += [str(listening.getsockname()[1]), str(user), calls]
            done = subprocess.run(words, capture_output=True, timeout=60, env={"PATH": "/usr/bin"}, check=True)
    finally:
        shutil.rmtree(folder)
    report: dict[str, Any] = json.loads(done.stdout)
    return report


@pytest.mark.parametrize("user", [0, 4321], ids=["of root", "of anybody"])
@pytest.mark.parametrize("calls", ["all calls", "calls that reading needs"])
def test_what_reads_has_neither_network_nor_files_nor_processes_nor_others(user: int, calls: str) -> None:
    """By namespaces, limits and another root alone, where the kernel filters no calls, and once more by that filter."""
    require(os.geteuid() == 0, "root")
    report = _probed(user, calls)
    by_filter = {"network": "PermissionError", "link": "PermissionError"}
    by_place = {"network": "OSError", "link": "done"}
    # Without the filter there is no program to run, and no place for one more process, whichever is met first.
    no_program = {"FileNotFoundError", "BlockingIOError"} if calls == "all calls" else {"PermissionError"}
    assert report.pop("programs") in no_program
    assert report.pop("processes") in {"BlockingIOError", "PermissionError"}
    assert report.pop("others") in {"ProcessLookupError", "PermissionError"}
    assert set(report.pop("root")) <= {"large", "small", "out"}
    assert report == {
        **(by_place if calls == "all calls" else by_filter),
        "files": "FileNotFoundError",
        "large": "OSError",
        "memory": "MemoryError",
        "own": "done",
        "user": user or 65534,
        "descriptors": "OSError",
    }


async def test_its_environment_is_made_for_it(proofs: Proofs, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_SECRET_CANARY", "canary")
    says = "import json, os; print(json.dumps({'error': json.dumps(dict(os.environ), sort_keys=True)}))"
    monkeypatch.setattr(restored_state, "command", lambda *_: [sys.executable, "-I", "-c", says])
    proved = await _proved(proofs, proofs.archive(*_packed(home)))
    assert json.loads(proved.checked) == {"LANG": "C.UTF-8", "PATH": "/usr/bin:/bin"}


@pytest.mark.parametrize("lacking", ["unshare", "prctl", "capset"])
async def test_nothing_is_read_where_it_cannot_be_kept_apart(
    proofs: Proofs, home: Path, monkeypatch: pytest.MonkeyPatch, lacking: str
) -> None:
    real = restored_state.command
    refusing = (
        "import hermesops.agents.backup.proof.confinement as c; real = c._call\n"
        "def call(name, *words):\n"
        f"    if name == {lacking!r}: raise OSError(1, name)\n"
        "    real(name, *words)\n"
        "c._call = call\n"
        "main()"
    )

    def without(root: Path, folder: Path, bounds: Bounds, limits: Limits) -> list[str]:
        words = real(root, folder, bounds, limits)
        words[3] = words[3].replace("; ", "\n").replace("main()", refusing)
        return words

    monkeypatch.setattr(restored_state, "command", without)
    backup = proofs.archive(*_packed(home))
    with pytest.raises(UnavailableError, match="cannot confine the reader of a backup") as refused:
        await proofs.prove(backup)
    assert "root" in str(refused.value.hint)


@dataclass(frozen=True)
class _Repository:
    path: Path

    def _run(self, *words: str, given: bytes = b"") -> bytes:
        environment = {"PATH": os.defpath, "HOME": "/nonexistent", "RESTIC_PASSWORD": "word"}
        command = ["restic", "--no-cache", "--quiet", "--repo", str(self.path), *words]
        return subprocess.run(command, env=environment, input=given, stdout=-1, check=True, timeout=60).stdout

    def begin(self) -> None:
        self._run("init")

    def save(self, home: Path) -> Backup:
        data, state = _packed(home)
        output = self._run("backup", "--json", "--stdin", "--stdin-filename", "state.tar", given=data)
        snapshot = json.loads(output.splitlines()[-1])["snapshot_id"]
        return Backup(snapshot, InstanceId("i"), NOW, "test", len(data), len(data), state)


@pytest.fixture
def three(home: Path, tmp_path: Path) -> tuple[_Repository, Rows]:
    """Three backups in restic's own repository; where views are read, the second one never ends."""
    require(shutil.which("restic"), "restic")
    repository = _Repository(tmp_path / "repository")
    repository.begin()
    good = repository.save(home)
    shutil.copy(home / "state.db", tmp_path / "state.db")
    DATABASES["a view that never ends"].plant(home / "state.db")
    hostile = repository.save(home)
    shutil.copy(tmp_path / "state.db", home / "state.db")
    (home / "SOUL.md").write_text("Be kind.")
    backups = (good, hostile, repository.save(home))
    return repository, Rows({backup.id: backup for backup in backups})


async def test_others_of_the_same_run_are_proved(three: tuple[_Repository, Rows]) -> None:
    repository, rows = three

    async def credential() -> Credential:
        return Credential("none", "none")

    restic = Restic({"PATH": os.defpath, "HOME": "/nonexistent"}, credential)
    proof = Proof(rows, KnownKeys(str(repository.path), "word"), restic, lambda _: None, QUICK)
    proved = await fan_out(list(rows.known.values()), proof.prove, Places(1, 30, 60))
    assert [not isinstance(checked, HermesError) and checked.is_proved for checked in proved] == [True, False, True]
    missing = replace(next(iter(rows.known.values())), id="f" * 64)
    rows.known[missing.id] = missing
    assert "restic" in (await proof.prove(missing)).checked
