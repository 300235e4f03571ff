"""Repeats one job in a resident process: it has imported all modules, and forks a child for each run.

Imports are most of what a start costs. A child begins as its parent did and ends with its run, so nothing that a run
leaves behind lasts: a thread that hangs, memory that a hostile answer took.

The parent holds its modules for as long as the machine runs: modules of the standard library that are large and quick
to import (``http.client``, ``ssl``, ``tempfile``, ``hashlib``, ``random``) are imported by the child that uses them.
"""

import gc
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Container
from pathlib import Path
from typing import NoReturn

from hermesops.wire.errors import ExitCode

Run = Callable[[], int]
"""Makes one run; its exit code."""

_Version = tuple[int, int, int, int]


def stay(run: Run, *, limit_s: float, pause_s: Callable[[], float], goes_on: Container[int], program: Path) -> int:
    """Make runs until one fails, or until the program is another one; the exit code.

    Args:
        limit_s: Seconds after which a run is killed.
        pause_s: Draws the seconds from the end of a run to the next one.
        goes_on: Exit codes of runs that another run follows.
        program: The file that this process was started from; a release or a role may replace it.
    """
    begun = _version(program)
    gc.freeze()  # else a collection in a child would copy every page that it looks at
    while True:
        code = in_child(run, limit_s)
        if code not in goes_on:
            return code
        time.sleep(pause_s())
        if _version(program) != begun:
            return ExitCode.OK


def in_child(run: Run, limit_s: float) -> int:
    """Make a run in a child of this process; its exit code, or ``UNFINISHED`` where the time was over.

    A child that is killed for the time is not waited for: it may hang in the kernel. Ending is then its parent's part,
    and the control group's.
    """
    child = os.fork()
    if not child:
        _end_with(run)
    handle = os.pidfd_open(child)
    try:
        ended = select.poll()
        ended.register(handle, select.POLLIN)
        if not ended.poll(limit_s * 1000):
            os.kill(child, signal.SIGKILL)
            sys.stderr.write(f"hermes-node: killed, as it had not ended within {limit_s:g} s\n")
            return ExitCode.UNFINISHED
    finally:
        os.close(handle)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    return code if code >= 0 else ExitCode.ERROR


def _end_with(run: Run) -> NoReturn:
    """Make the run and end this process, even if parts of the run are still active."""
    code: int = ExitCode.ERROR
    try:
        code = run()
        sys.stdout.flush()
    except BaseException:  # noqa: BLE001 - its parent's loop must not go on in the child
        import traceback  # noqa: PLC0415 - as it is seldom needed

        traceback.print_exc()
    finally:
        os._exit(code)


def _version(program: Path) -> _Version | None:
    """Facts that distinguish a file from its successor of the same name; ``None`` if there is no file."""
    try:
        status = program.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size
