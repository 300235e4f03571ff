"""What long-running commands hold in memory gets into no core dump, and no other process of the user can read it."""

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermesops.base.child_environment import made

COMMANDS = {
    "worker": ["-m", "hermesops", "--env", "staging", "worker"],
    "identity serve": ["-m", "hermesops", "--env", "staging", "identity", "serve", "--listen", "127.0.0.1:0"],
    "local serve": ["-m", "hermesops", "local", "serve", "--driver", "sim"],
    "plugin": ["-c", "from hermesops.cli.provider import main; main()"],
}
STARTED_S = 120
# For what serves staging: it goes on without a world, and nobody there ever answers.
SILENT_VENDOR = {
    "HERMESOPS_API_URL": "https://127.0.0.1:9/api/v1",
    "HERMESOPS_API_KEY": "k",
    "HERMESOPS_PLATFORM_URL": "https://127.0.0.1:9",
}


def without_limit() -> None:
    """As a service manager may start us: with room for any core dump."""
    hard = resource.getrlimit(resource.RLIMIT_CORE)[1]
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))


@contextmanager
def running(words: Sequence[str], home: Path) -> Iterator[subprocess.Popen[bytes]]:
    vendor = SILENT_VENDOR if "staging" in words else {}
    given = made(added={"HERMESOPS_HOME": str(home), "HERMESOPS_LOCAL_DRIVER": "sim", **vendor})
    process = subprocess.Popen(
        words,
        cwd=home,
        env=given,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        preexec_fn=without_limit,  # noqa: PLW1509 - one call
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until_it_speaks(process: subprocess.Popen[bytes]) -> None:
    """Once it narrates, it is at work."""
    assert process.stdout is not None
    os.set_blocking(process.stdout.fileno(), False)
    end = time.monotonic() + STARTED_S
    while not (output := process.stdout.read()):
        assert process.poll() is None, "it ended"
        assert time.monotonic() < end, "it says nothing"
        time.sleep(0.1)  # noqa: TID251 - a process of its own
    assert not output.startswith(b"error:")


def crash(process: subprocess.Popen[bytes]) -> bool:
    """Whether the kernel wrote, or handed on, a core dump of it."""
    process.send_signal(signal.SIGSEGV)
    _, status = os.waitpid(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    assert process.returncode == -signal.SIGSEGV
    return os.WCOREDUMP(status)


def test_this_kernel_would_dump_a_process_that_does_nothing_about_it(tmp_path: Path) -> None:
    if not resource.getrlimit(resource.RLIMIT_CORE)[1]:
        pytest.skip("this computer forbids all core dumps, so none of these tests can fail")
    program = "import sys, time; sys.stderr.write('x'); sys.stderr.flush(); time.sleep(600)"
    with running([sys.executable, "-c", program], tmp_path) as process:
        until_it_speaks(process)
        assert crash(process)
    for file in tmp_path.glob("core*"):
        file.unlink()


@pytest.mark.turns(7)
@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_that_crashes_leaves_no_core_dump(name: str, tmp_path: Path) -> None:
    with running([sys.executable, *COMMANDS[name]], tmp_path) as process:
        until_it_speaks(process)
        limits = Path(f"/proc/{process.pid}/limits").read_text()
        assert next(line for line in limits.splitlines() if line.startswith("Max core")).split()[4:6] == ["0", "0"]
        assert not crash(process)
    assert not list(tmp_path.glob("core*"))


@pytest.mark.parametrize("module", ["hermesops.cli.main", "hermesops.programs.node.__main__"])
def test_every_entry_forbids_it_first(module: str, tmp_path: Path) -> None:
    """Asked of the kernel in the process itself, after the entry has run to the end of ``--help`` or an error."""
    program = f"""
import ctypes, sys
from {module} import main
sys.argv[1:] = ["--help"]
try:
    main()
except BaseException:
    pass
sys.stdout.flush()
sys.stderr.write(f"dumpable {{ctypes.CDLL(None).prctl(3, 0, 0, 0, 0)}}")
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=made(added={"HERMESOPS_HOME": str(tmp_path)}),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
    assert done.stderr.endswith("dumpable 0")
