"""Runs commands for the toolbox, each in a control group of its own, and tells what they print as it comes."""

import contextlib
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .group import Group
from .http import HttpError
from .jobs import Job

_DRAIN_S = 0.15
_OUTPUT_LIMIT = 16 * 1024 * 1024

Sink = Callable[[str, bytes], None]
"""Receives ``("stdout" | "stderr", data)`` as it comes."""


@dataclass(frozen=True)
class Ended:
    """How it ended; ``exit_code`` is 128 + the signal's number for a killed command."""

    exit_code: int
    duration_ms: int
    timed_out: bool


class Runner:
    """Runs jobs and tells a sink what they print."""

    def __init__(self, root: Path | None) -> None:
        self._root = root

    def run(self, job: Job, sink: Sink) -> Ended:
        """Run one job to its end or its timeout. Nothing of a timed-out job survives."""
        started = time.monotonic()
        group = Group(self._root)
        try:
            child = self._start(job, group)
            timed_out = True  # also when the listener hangs up: nobody would hear the end
            try:
                timed_out = _pump(child, sink, started + job.timeout_s)
            finally:
                if timed_out:
                    group.kill()
                    with contextlib.suppress(ProcessLookupError):
                        os.killpg(child.pid, signal.SIGKILL)
                code = child.wait()
                for pipe in (child.stdout, child.stderr):
                    if pipe:
                        pipe.close()
        finally:
            group.leave()
        exit_code = 128 - code if code < 0 else code
        return Ended(exit_code, round((time.monotonic() - started) * 1000), timed_out)

    @staticmethod
    def _start(job: Job, group: Group) -> subprocess.Popen[bytes]:
        joining = group.descriptor()

        def join() -> None:
            if joining is not None:
                os.write(joining, b"0")

        other = job.user.pw_uid != os.getuid()
        try:
            with _given(job.source) as given:
                return subprocess.Popen(
                    job.arguments,
                    stdin=given,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE,
                    cwd=job.cwd,
                    env=job.env,
                    start_new_session=True,
                    user=job.user.pw_uid if other else None,
                    group=job.user.pw_gid if other else None,
                    extra_groups=os.getgrouplist(job.user.pw_name, job.user.pw_gid) if other else None,
                    preexec_fn=join,  # noqa: PLW1509 - one write(2) on a file that is open already
                )
        except NotADirectoryError as error:
            raise HttpError(400, "bad_cwd", f"{job.cwd} is not a directory") from error
        except FileNotFoundError as error:
            raise HttpError(404, "not_found", f"{error.filename} does not exist") from error
        except PermissionError as error:
            raise HttpError(403, "forbidden", f"{job.user.pw_name} may not run there: {error.filename}") from error
        finally:
            if joining is not None:
                os.close(joining)


def _given(source: bytes) -> BinaryIO:
    """Standard input: the source from memory, or nothing."""
    if not source:
        return Path(os.devnull).open("rb")
    given = open(os.memfd_create("source"), "w+b")  # noqa: PTH123, SIM115 - a descriptor; the caller closes it
    given.write(source)
    given.seek(0)
    return given


def _pump(child: subprocess.Popen[bytes], sink: Sink, deadline: float) -> bool:
    """Move output to the sink until the command itself has ended; True when the deadline came first.

    A background child may keep the pipes open for ever, so the end of the command counts, not the end of the pipes.
    """
    ended = os.pidfd_open(child.pid)
    try:
        with selectors.DefaultSelector() as selector:
            selector.register(ended, selectors.EVENT_READ, "ended")
            for name, pipe in (("stdout", child.stdout), ("stderr", child.stderr)):
                if pipe:
                    os.set_blocking(pipe.fileno(), False)
                    selector.register(pipe, selectors.EVENT_READ, name)
            return _select(selector, sink, deadline)
    finally:
        os.close(ended)


def _select(selector: selectors.BaseSelector, sink: Sink, deadline: float) -> bool:
    draining_until: float | None = None
    while selector.get_map():
        until = deadline if draining_until is None else draining_until
        events = selector.select(max(0.0, until - time.monotonic()))
        for key, _ in events:
            if key.data == "ended":
                selector.unregister(key.fileobj)
                draining_until = time.monotonic() + _DRAIN_S
                continue
            data = _read(key.fileobj)
            if data:
                sink(key.data, data)
            elif data == b"":
                selector.unregister(key.fileobj)
        if draining_until is not None and (not events or time.monotonic() >= draining_until):
            return False
        if draining_until is None and time.monotonic() >= deadline:
            return True
    return False


def _read(pipe: object) -> bytes | None:
    try:
        return os.read(pipe.fileno(), 64 * 1024)  # type: ignore[attr-defined]
    except BlockingIOError:
        return None


class Collector:
    """A sink that keeps what was printed, up to a limit per stream."""

    def __init__(self) -> None:
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False

    def __call__(self, name: str, data: bytes) -> None:
        """Keep one piece of output."""
        kept = self._kept[name]
        room = _OUTPUT_LIMIT - len(kept)
        self.truncated = self.truncated or len(data) > room
        kept += data[: max(0, room)]

    def text(self, name: str) -> str:
        """What one stream printed; bytes that are not UTF-8 are replaced."""
        return self._kept[name].decode("utf-8", "replace")
