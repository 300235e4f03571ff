"""A test process that is killed leaves no server behind."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from hermesops.base.waiting import pause_blocking
from tests.support.real.ends_with_us import INTERRUPTED, KILLED

_REAL = Path(__file__).parents[2] / "support" / "real"
_END_BY_THEMSELVES = {
    "command.py": "commands of ours, which a test waits for",
    "fork_server.py": "ends at the end of its input, which its starter holds open",
}

_STARTER = "import subprocess, sys, time; print(subprocess.Popen(sys.argv[1:]).pid, flush=True); time.sleep(60)"


@pytest.mark.parametrize("prefix", [KILLED, INTERRUPTED], ids=["killed", "interrupted"])
def test_a_server_ends_with_the_run_that_was_killed(prefix: tuple[str, ...]) -> None:
    words = [sys.executable, "-c", _STARTER, *prefix, "sleep", "60"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout
        server = int(run.stdout.readline())
        while Path(f"/proc/{server}/comm").read_text() != "sleep\n":  # until setpriv has made way for it
            pause_blocking(0.02)
        run.send_signal(signal.SIGKILL)
    for _ in range(100):
        if not _is_running(server):
            return
        pause_blocking(0.1)
    os.kill(server, signal.SIGKILL)
    pytest.fail("the server outlived the run")


def test_every_real_server_of_the_suite_is_started_like_that() -> None:
    starters = [
        path for path in _REAL.rglob("*.py") if "Popen(" in (text := path.read_text()) or "subprocess_exec(" in text
    ]
    unbound = {path.name for path in starters if "ends_with_us import" not in path.read_text()}
    assert unbound == set(_END_BY_THEMSELVES)


def _is_running(pid: int) -> bool:
    """Whether the process lives; a zombie, which only waits for its parent to look, does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
