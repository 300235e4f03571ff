"""Every command of hermes-node's on a home full of traps ends in its time, with its work or with what it left out."""

import io
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.programs.node.__main__ import run
from hermesops.wire.state import contents
from tests.support.fakes.machines.node_home import NodeHome, make
from tests.support.hostile.home import plant

pytestmark = pytest.mark.turns(30)

_WITHIN_S = 30.0
_BACKUP_S = 300.0  # restic takes every one of the names; 20 s of a computer with nothing else to do
_ENTRIES = 100_000


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[NodeHome]:
    """A machine that belongs to somebody whose agent has been busy; a file of it grows all the time."""
    machine = make(tmp_path_factory.mktemp("machine"))
    assert _ran(machine, "personalise", str(machine.personalised()), "--wait", "0")[0] == 0
    machine.repository.mkdir()
    program = [sys.executable, "-c", plant(entries=_ENTRIES), str(machine.home)]
    subprocess.run(program, check=True, timeout=120)
    ended = threading.Event()
    growing = threading.Thread(target=_grow, args=(machine.home / "memories/now", ended))
    growing.start()
    yield machine
    ended.set()
    growing.join()
    contents.remove(machine.home)  # pytest's own way ends in folders without end


def _grow(path: Path, ended: threading.Event) -> None:
    while not ended.wait(0.001):
        with path.open("ab") as file:
            file.write(b"more\n" * 1000)
        if path.stat().st_size > 1 << 24:
            os.truncate(path, 0)


def _ran(machine: NodeHome, *words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = run(words, lambda _root: machine.node, out, err)
    return code, out.getvalue(), err.getvalue()


COMMANDS = [
    "status",
    "health",
    "state",
    "probe",
    "drain --deadline 5",
    "undrain",
    "configure --wait 0",
    "fence",
    "unfence",
    "release show",
    "release check",
    "release gc",
    "release settle",
    "certificate show",
    "volume show",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_ends_in_its_time_with_one_answer(machine: NodeHome, command: str) -> None:
    started = time.monotonic()
    code, out, err = _ran(machine, *command.split())
    assert time.monotonic() - started < _WITHIN_S
    assert code in {0, 3, 4, 8}
    assert isinstance(json.loads(out.splitlines()[-1]), dict)
    assert all(line.isprintable() for line in err.splitlines())


@pytest.mark.turns(60)
def test_a_backup_is_made_and_counts_what_it_left_out(machine: NodeHome) -> None:
    started = time.monotonic()
    code, out, err = _ran(machine, "backup", str(machine.upload()))
    assert time.monotonic() - started < _BACKUP_S
    assert code == 0, err
    document = json.loads(out)
    assert document["left_out"] >= 9  # a file that is nearly all hole in each of the folders
    assert document["state"]["messages"]["count"] == 2
    assert document["state"]["sessions"]["count"] == 1


def test_an_export_is_whole(machine: NodeHome) -> None:
    started = time.monotonic()
    with (machine.layout.root / "export").open("w+") as out:
        assert run(("export",), lambda _root: machine.node, out, io.StringIO()) == 0
        out.seek(0)
        rows = [json.loads(line) for line in out]
    assert time.monotonic() - started < _WITHIN_S
    assert rows[-1]["table"] == "end"
    assert rows[-1]["counts"]["conversations"] == 2


@pytest.mark.parametrize(
    "command",
    [
        "keep 1-x",
        "preview 1-x",
        "restore 1-x",
        "make_trial_copy 33",
        "keep_config",
        "take_config_back 33",
        "trial_schemas",
        "remove_trial_copy",
        "prune 0",
        "forget",
    ],
)
def test_a_process_of_the_user_ends_on_the_home(machine: NodeHome, command: str) -> None:
    verb, *words = command.split()
    started = time.monotonic()
    report, count = os.pipe()
    subprocess.run(
        [sys.executable, "-I", str(machine.layout.program), "as-user", verb, str(machine.home), str(count), *words],
        pass_fds=[count],
        check=False,
        timeout=_WITHIN_S,
    )
    os.close(count)
    with os.fdopen(report, "rb") as pipe:
        assert isinstance(json.loads(pipe.read()), dict)
    assert time.monotonic() - started < _WITHIN_S
