"""Runs of a process that stays, each in a child: in an interpreter of their own, as this one has threads."""

import subprocess
import sys
from pathlib import Path

import pytest

_HEAD = """
import os, sys, threading, time
from pathlib import Path
from hermesops.programs.node.system.resident import stay

program, count = Path(sys.argv[1]), Path(sys.argv[2])
seen = []

def runs():
    return len(count.read_text())

def run():
    seen.append(1)
    assert len(seen) == 1, "each begins as the process did"
    count.write_text(count.read_text() + "x")
"""
_TAIL = """
    return 0 if runs() < 3 else 9

sys.exit(stay(run, limit_s=LIMIT, pause_s=lambda: 0.0, goes_on={0, 4}, program=program))
"""


def ended(folder: Path, body: str, *, limit_s: float = 60.0) -> tuple[int, int, str]:
    """Exit code, number of runs, and standard error of a process whose runs do that."""
    program, count = folder / "program", folder / "count"
    program.write_text("1")
    count.write_text("")
    script = f"{_HEAD}    {body}{_TAIL.replace('LIMIT', str(limit_s))}"
    words = [sys.executable, "-c", script, str(program), str(count)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    return done.returncode, len(count.read_text()), done.stderr


def test_runs_follow_each_other_until_one_fails(tmp_path: Path) -> None:
    assert ended(tmp_path, "pass") == (9, 3, "")


def test_a_code_that_goes_on_is_followed_by_another_run(tmp_path: Path) -> None:
    assert ended(tmp_path, "os._exit(4 if runs() < 5 else 3)") == (3, 5, "")


def test_another_program_ends_it_before_the_next_run(tmp_path: Path) -> None:
    swap = "program.with_name('next').write_text('2'); os.replace(program.with_name('next'), program)"
    assert ended(tmp_path, swap) == (0, 1, "")


def test_a_program_that_is_gone_ends_it_too(tmp_path: Path) -> None:
    assert ended(tmp_path, "program.unlink()") == (0, 1, "")


def test_a_run_that_hangs_is_killed(tmp_path: Path) -> None:
    code, runs, stderr = ended(tmp_path, "time.sleep(20); os._exit(3)", limit_s=0.3)
    assert (code, runs) == (7, 1)
    assert "had not ended within 0.3 s" in stderr


def test_a_thread_that_hangs_does_not_keep_its_run(tmp_path: Path) -> None:
    assert ended(tmp_path, "threading.Thread(target=time.sleep, args=(600,)).start()") == (9, 3, "")


@pytest.mark.parametrize("body", ["raise RuntimeError('why')", "sys.exit(0)", "os.kill(os.getpid(), 9)"])
def test_a_run_that_raises_or_is_killed_ends_it(tmp_path: Path, body: str) -> None:
    code, runs, _ = ended(tmp_path, body)
    assert (code, runs) == (1, 1)
