"""What runs as the agent's user for hermes-node may not end, not be quiet, be stopped, or leave a process behind."""

import json
import os
import select
import time
from pathlib import Path

import pytest

from hermesops.programs.node.state import adapter, backup
from hermesops.programs.node.system.as_user import AgentHome, UserProcess, pump, run
from hermesops.programs.node.system.files import Access
from hermesops.wire.errors import NodeError, NotReadyError
from tests.support.fakes.machines.node_home import NodeHome, make

pytestmark = pytest.mark.turns(30)

_WITHIN_S = 5.0
_START = """
import json, os, signal, sys, time
word, verb, home, report, *words = sys.argv[1:]
report = int(report)
def say(text): os.write(report, text.encode())
def leave(seconds):
    if os.fork() == 0:
        os.setsid()
        if os.fork():
            os._exit(0)
        open(home + "/left", "w").write(str(os.getpid()))
        time.sleep(seconds)
        os._exit(0)
"""
_DOUBLE_FORK = 'leave(20); say(json.dumps({"state": {}, "bytes": 3}))'
_ENDLESS = 'import itertools\nfor _ in itertools.count(): say("x" * 4096)'
_DRIP = "while True: say(' '); time.sleep(0.1)"
_SILENT = "time.sleep(60)"
_CHILD = 'pid = os.fork()\nif pid: open(home + "/left", "w").write(str(pid))\ntime.sleep(60)'
_STOP = "os.kill(os.getpid(), signal.SIGSTOP)"
_STOP_LATER = "time.sleep(1); " + _STOP

ENDINGS = [
    (_ENDLESS, "reported more than"),
    (_DRIP, r"no end after 2 s"),
    (_SILENT, r"no end after 2 s"),
    (_CHILD, r"no end after 2 s"),
    (_STOP, "stopped by a signal"),
    (_STOP_LATER, "stopped by a signal"),
    ("pass", "cut short"),
    ('say("[" * 100000)', "cut short"),
    ("say('{\"bytes\": 1e999}')", "cut short"),
    ("say('[]')", "cut short"),
    ("os.kill(os.getpid(), signal.SIGKILL)", "cut short"),
    ('say(json.dumps({"error": "\\x1b[2J" * 1000, "kind": "SystemExit"}))', r"\A[^\x1b]{,500}\Z"),
]


def program(folder: Path, body: str) -> AgentHome:
    """A home whose processes of the agent's user are that."""
    path = folder / "program"
    path.write_text(_START + body)
    (folder / "home").mkdir(exist_ok=True)
    return AgentHome(folder / "home", Access(0o600, os.geteuid(), os.getegid()), path)


def _ends(pid: int) -> bool:
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([watched], [], [], _WITHIN_S)[0])
    finally:
        os.close(watched)


@pytest.mark.parametrize(("body", "why"), ENDINGS, ids=[str(number) for number in range(len(ENDINGS))])
def test_a_process_of_the_user_ends_in_its_time_and_says_why(tmp_path: Path, body: str, why: str) -> None:
    started = time.monotonic()
    with pytest.raises(NotReadyError, match=why):
        run(program(tmp_path, body), "observe", timeout_s=2.0)
    assert time.monotonic() - started < _WITHIN_S


def test_what_a_process_of_the_user_started_ends_with_it(tmp_path: Path) -> None:
    home = program(tmp_path, _CHILD)
    with pytest.raises(NotReadyError, match="no end"):
        run(home, "observe", timeout_s=2.0)
    child = int((home.path / "left").read_text())
    # It is a process of whoever adopts orphans by now, and ends when that gets to it.
    assert _ends(child)


def test_what_got_away_keeps_nobody_waiting(tmp_path: Path) -> None:
    """Its own session, and both pipes still open: as a user's process, which it is, it may go on."""
    home = program(tmp_path, _DOUBLE_FORK)
    started = time.monotonic()
    assert adapter.observe(home) == ({}, 3)
    assert time.monotonic() - started < _WITHIN_S
    os.kill(int((home.path / "left").read_text()), 9)


@pytest.mark.parametrize("message", ["{}", '{"state": 3, "bytes": 1}', '{"state": {}, "bytes": "x"}', '{"state": {}}'])
def test_an_answer_of_another_shape_is_one_error(tmp_path: Path, message: str) -> None:
    with pytest.raises(NotReadyError, match="observe: its report is not understood"):
        adapter.observe(program(tmp_path, f"say('{message}')"))


def test_a_lack_of_memory_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def eats(_home: Path) -> dict[str, object]:
        raise MemoryError

    monkeypatch.setattr(adapter, "_VERBS", {"eat": eats})
    with (tmp_path / "report").open("w+b") as report:
        code = adapter.main(["eat", str(tmp_path), str(os.dup(report.fileno()))])
        report.seek(0)
        document = json.loads(report.read())
    assert code == NotReadyError.exit_code
    assert document == {"error": "eat: it takes more than 1024 MiB of memory", "kind": "NotReadyError"}


def test_a_process_of_the_user_has_a_limit_of_memory_and_leaves_no_core(tmp_path: Path) -> None:
    body = """
import resource
try:
    kept = bytes(3 << 30)
except MemoryError:
    kept = b""
say(json.dumps({"state": {"core": resource.getrlimit(resource.RLIMIT_CORE)[0], "kept": len(kept)}, "bytes": 0}))
"""
    assert adapter.observe(program(tmp_path, body))[0] == {"core": 0, "kept": 0}


@pytest.fixture
def machine(tmp_path: Path) -> NodeHome:
    node_home = make(tmp_path / "root", runs_processes=False)
    node_home.repository.mkdir()
    return node_home


def _runs_instead(machine: NodeHome, body: str) -> None:
    machine.layout.program.parent.mkdir(parents=True, exist_ok=True)
    machine.layout.program.write_text(_START + body)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (_STOP, "pack: its process was stopped by a signal"),
        ('os.write(1, b"x" * 4096); ' + _STOP, "pack: its process was stopped by a signal"),
        ("leave(30)", "cut short"),
        ('os.write(1, b"x" * 4096); os.kill(os.getpid(), signal.SIGKILL)', "cut short"),
    ],
    ids=["stopped", "stopped in the middle", "left something", "killed"],
)
def test_a_backup_of_what_stops_or_hides_ends_without_a_snapshot(machine: NodeHome, body: str, why: str) -> None:
    _runs_instead(machine, body)
    started = time.monotonic()
    with pytest.raises(NodeError, match=why):
        backup.backup(machine.node, machine.upload(), lease=None)
    assert time.monotonic() - started < 2 * _WITHIN_S  # restic makes its repository first
    assert list((machine.repository / "snapshots").iterdir()) == []
    if (machine.home / "left").exists():
        os.kill(int((machine.home / "left").read_text()), 9)


def test_a_stream_of_trickles_goes_on_until_it_ends(tmp_path: Path) -> None:
    giver = UserProcess(program(tmp_path, 'for _ in range(5): os.write(1, b"x"); time.sleep(0.1)'), "pack", stdout=-1)
    reader, writer = os.pipe()
    assert giver.process.stdout is not None
    with os.fdopen(writer, "wb") as target, giver.process.stdout as source:
        pump(source, target, giver=giver)
    giver.stop()
    with os.fdopen(reader, "rb") as got:
        assert got.read() == b"xxxxx"


def test_a_taker_that_was_stopped_is_not_waited_for(tmp_path: Path) -> None:
    taker = UserProcess(program(tmp_path, _STOP), "unpack", stdin=-1)
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    assert taker.process.stdin is not None
    try:
        with os.fdopen(reader, "rb") as source, taker.process.stdin as target:
            os.write(writer, b"x" * 65536)
            os.set_blocking(target.fileno(), False)
            while True:  # a full pipe
                try:
                    os.write(target.fileno(), b"x" * 4096)
                except BlockingIOError:
                    break
            with pytest.raises(NotReadyError, match="unpack: its process was stopped"):
                pump(source, target, taker=taker)
    finally:
        taker.stop()
        os.close(writer)


def test_a_stopped_export_ends(tmp_path: Path) -> None:
    with (tmp_path / "out").open("w") as out, pytest.raises(NotReadyError, match="export: its process was stopped"):
        adapter.export(program(tmp_path, _STOP), out)
