"""A program that runs a hook's command and then, or at SIGTERM, kills all processes that the command started.

It is a child subreaper: a process that leaves its group and its parent becomes its child, so none is out of reach. It
is started by ``hook_command`` and uses the standard library alone.

Source: prctl(2) ``PR_SET_CHILD_SUBREAPER``; linux/prctl.h; proc(5), ``/proc/PID/stat``; signal(7).
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence

ENDING_S = 5.0
"""Seconds for all of them to end; one of another user, or that forks faster than it is killed, is left after that."""

NOT_STARTED = 127
"""What a shell says of a command that cannot be run."""

_PR_SET_CHILD_SUBREAPER = 36
_EVERY_S = 0.01
_TOLD_TO_END = 128 + signal.SIGTERM


def main(words: Sequence[str]) -> int:
    """Run a command; its exit code, or 128 and the number of the signal that ended it, as of a shell."""
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TOLD_TO_END))
    try:
        # It gets the environment made for it, and a session of its own, so that its signals cannot reach us.
        code = subprocess.Popen(words, start_new_session=True).wait()
    except OSError as error:
        print(f"{words[0]}: {error.strerror}", flush=True)  # noqa: T201 - where the command's own output goes
        return NOT_STARTED
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        end_children()
    return code if code >= 0 else 128 - code


def end_children() -> None:
    """Kill every child, and every process that becomes one because its parent has ended."""
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
    until = time.monotonic() + ENDING_S
    with contextlib.suppress(ChildProcessError):
        while time.monotonic() < until:
            for pid in _children():
                with contextlib.suppress(OSError):
                    os.kill(pid, signal.SIGKILL)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
            signal.sigtimedwait({signal.SIGCHLD}, _EVERY_S)


def _children() -> Iterator[int]:
    for name in os.listdir("/proc"):  # noqa: PTH208 - names only
        with contextlib.suppress(OSError, ValueError):
            with open(f"/proc/{int(name)}/stat", encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - as above
                parent = file.read().rpartition(")")[2].split()[1]
            if int(parent) == os.getpid():
                yield int(name)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
