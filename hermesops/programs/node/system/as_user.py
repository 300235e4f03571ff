"""Runs this program again as the agent's user, for all access to the agent's own files.

The user has no more rights than the agent itself, so a link, a database or a name that the agent has planted leads
nowhere that the agent could not go. For the same reason its report is not trusted: only numbers and digests are used.
``node.state.adapter`` has the commands that run so.
"""

import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from hermesops.programs.node.system.files import Access
from hermesops.wire.errors import BadRequestError, NodeError, NotReadyError, RefusedError
from hermesops.wire.foreign_text import one_line
from hermesops.wire.strict_json import MalformedJSONError, parse_object

WORD = "as-user"
"""First argument of the program that makes it such a process; not for people."""

MEMORY_BYTES = 1 << 30
"""Memory limit of such a process: an agent can craft a database that needs any amount."""

_REPORT_BYTES = 1 << 20
_END_S = 60.0
_WATCH_EVERY_S = 0.5
"""How often a waiting process checks whether the other can still end."""

_TAKEN_S = 120.0
"""Limit without a byte read by restic: the object store is gone, and restic would retry for a quarter of an hour."""

_GIVEN_S = 900.0
"""Limit without a byte; a large database is copied before its first byte arrives."""

_BLOCK = 1 << 20
_STOPPED = frozenset({os.CLD_STOPPED, os.CLD_TRAPPED})


@dataclass(frozen=True)
class AgentHome:
    """An agent's home (HERMES_HOME), the agent's user, and where hermes-node is."""

    path: Path
    access: Access
    program: Path


class UserProcess:
    """A running process of the agent's user, in a process group of its own.

    ``verb`` is a command of ``node.state.adapter``, ``words`` are its arguments.
    """

    def __init__(
        self,
        home: AgentHome,
        verb: str,
        *words: str,
        stdin: int | IO[bytes] = subprocess.DEVNULL,
        stdout: int | IO[Any] | None = None,
    ) -> None:
        self._verb = verb
        self._report, report = os.pipe()
        try:
            self.process = subprocess.Popen(
                [
                    *("prlimit", f"--as={MEMORY_BYTES}", "--core=0", "--"),
                    *as_user(home.access),
                    *(sys.executable, "-I", str(home.program), WORD, verb, str(home.path), str(report), *words),
                ],
                stdin=stdin,
                stdout=subprocess.DEVNULL if stdout is None else stdout,
                stderr=subprocess.DEVNULL,
                pass_fds=[report],
                cwd="/",
                env={"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
                start_new_session=True,
            )
        except OSError as error:
            os.close(self._report)
            raise NotReadyError(f"prlimit: {error.strerror}") from error
        finally:
            os.close(report)

    def end(self, *, timeout_s: float = _END_S) -> dict[str, Any]:
        """Wait for the end of the process and return its report. All its child processes have ended then too.

        ``timeout_s`` is the limit of the whole process, also while it reports.

        Raises:
            NodeError: It failed, was stopped by a signal, reported too much, or did not end in time.
        """
        until = time.monotonic() + timeout_s
        data = b""
        try:
            while piece := self._piece(until, timeout_s):
                data += piece
                if len(data) > _REPORT_BYTES:
                    raise NotReadyError(f"{self._verb}: reported more than {_REPORT_BYTES} bytes")
        finally:
            self.stop()
        return report_in(self._verb, data)

    def _piece(self, until: float, timeout_s: float) -> bytes:
        """The next piece of its report; empty at the end of the report, or of the process."""
        while (left := until - time.monotonic()) > 0:
            is_over = self.is_over()
            # A process that it left may keep the pipe open, but its own report is in there by its end.
            if select.select([self._report], [], [], 0 if is_over else min(left, _WATCH_EVERY_S))[0]:
                return os.read(self._report, _REPORT_BYTES)
            if is_over:
                return b""
        raise NotReadyError(f"{self._verb}: no end after {timeout_s:g} s")

    def is_over(self) -> bool:
        """Whether the process has ended.

        Raises:
            NotReadyError: A signal has stopped it, so it never ends; the agent's own processes can send that.
        """
        if self.process.returncode is not None:
            return True
        ended = os.waitid(os.P_PID, self.process.pid, os.WEXITED | os.WSTOPPED | os.WNOHANG | os.WNOWAIT)
        if ended is not None and ended.si_code in _STOPPED:
            raise NotReadyError(f"{self._verb}: its process was stopped by a signal of the agent's user")
        return ended is not None

    def stop(self) -> None:
        """Kill the process and all that it started."""
        if self._report >= 0:
            os.close(self._report)
            self._report = -1
        if self.process.returncode is None:  # its process number is not reused before the wait
            with suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


def run(home: AgentHome, verb: str, *words: str, timeout_s: float) -> dict[str, Any]:
    """Run a command that neither reads nor writes a stream; return its report."""
    return UserProcess(home, verb, *words).end(timeout_s=timeout_s)


def as_user(access: Access) -> list[str]:
    """The words before a command that run it as another user, for good; it ends when we do."""
    who = ["--reuid", str(access.uid), "--regid", str(access.gid), "--clear-groups"]
    return ["setpriv", *who, "--no-new-privs", "--inh-caps=-all", "--pdeathsig", "KILL", "--"]


_KINDS: Mapping[str, type[NodeError]] = {
    kind.__name__: kind for kind in (BadRequestError, NotReadyError, RefusedError, NodeError)
}


def report_in(verb: str, data: bytes) -> dict[str, Any]:
    """The report of a process of the agent's user.

    Raises:
        NodeError: It failed, or its report is not understood.
    """
    try:
        report = parse_object(data, largest=_REPORT_BYTES)
    except MalformedJSONError:
        raise NotReadyError(f"{verb}: its report was cut short") from None
    if "error" in report:
        raise _KINDS.get(str(report.get("kind")), NotReadyError)(one_line(str(report["error"])))
    return report


def pump(
    source: IO[bytes],
    target: IO[bytes],
    *,
    giver: UserProcess | None = None,
    taker: UserProcess | None = None,
    taken_s: float = _TAKEN_S,
    given_s: float = _GIVEN_S,
) -> None:
    """Move everything from one pipe to another, until the first ends or its giver does.

    Args:
        giver: The writer of the first pipe; processes it left may keep the pipe open.
        taker: The reader of the second.
        taken_s: Seconds for a piece to be taken.
        given_s: Seconds for a piece to come.

    Raises:
        BrokenPipeError: Nobody reads.
        NotReadyError: No data arrived for ``given_s`` seconds or was accepted for ``taken_s``, or a signal has stopped
            one of the two.
    """
    reader, writer = source.fileno(), target.fileno()
    os.set_blocking(writer, False)
    while _comes(reader, giver, given_s):
        data = memoryview(os.read(reader, _BLOCK))
        if not data:
            return
        while data:
            _refuse_untaken(writer, taker, taken_s)
            data = data[os.write(writer, data) :]


def _comes(reader: int, giver: UserProcess | None, given_s: float) -> bool:
    """Wait for something to read; false at the end of the stream."""
    until = time.monotonic() + given_s
    while (left := until - time.monotonic()) > 0:
        is_over = giver is not None and giver.is_over()
        if select.select([reader], [], [], 0 if is_over else min(left, _WATCH_EVERY_S))[0]:
            return True
        if is_over:
            return False
    raise NotReadyError(f"no data arrived for {given_s:g} s")


def _refuse_untaken(writer: int, taker: UserProcess | None, taken_s: float) -> None:
    until = time.monotonic() + taken_s
    while (left := until - time.monotonic()) > 0:
        if select.select([], [writer], [], min(left, _WATCH_EVERY_S))[1]:
            return
        if taker is not None and taker.is_over():
            raise BrokenPipeError
    raise NotReadyError(f"no data was accepted for {taken_s:g} s")
