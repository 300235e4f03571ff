"""Runs commands for the toolbox, each in a control group of its own, and passes on their output as it comes."""

import contextlib
import itertools
import os
import pwd
import selectors
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from .http import HttpError

DEFAULT_TIMEOUT_S = 60.0
CODE_TIMEOUT_S = 30.0
_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_LANGUAGES = {
    "python": "python3 -",
    "python3": "python3 -",
    "bash": "bash -s",
    "sh": "sh -s",
    "shell": "sh -s",
    "node": "node -",
    "javascript": "node -",
    "ruby": "ruby -",
}
"""The interpreter of each language. The vendor's list has ``go`` and ``typescript`` too, which read no standard input.

A shell starts it, so that a missing interpreter is exit code 127 with the shell's own words: of this call the vendor
documents the answers 200, 401 and 408 alone.
"""


_DRAIN_S = 0.15
_OUTPUT_LIMIT = 16 * 1024 * 1024
Sink = Callable[[str, bytes], None]
"""Receives ``("stdout" | "stderr", data)`` as it comes."""


@dataclass(frozen=True)
class Job:
    """A command to run, with its user, folder and time limit (seconds)."""

    arguments: list[str]
    user: pwd.struct_passwd
    cwd: str
    env: dict[str, str]
    timeout_s: float
    source: bytes = b""


def _text(body: dict[str, object], key: str, default: str) -> str:
    value = body.get(key)
    if value is None:
        return default
    if not isinstance(value, str) or "\0" in value:
        raise HttpError(400, "bad_request", f"{key} must be a string")
    return value


def _seconds(body: dict[str, object], default: float) -> float:
    value = body.get("timeout")
    if value is None:
        return default
    if not isinstance(value, (int, float)) or isinstance(value, bool) or value <= 0:
        raise HttpError(400, "bad_request", "timeout must be a positive number of seconds")
    return float(value)


def _environment(body: dict[str, object], user: pwd.struct_passwd) -> dict[str, str]:
    variables = body.get("env") or {}
    if not isinstance(variables, dict):
        raise HttpError(400, "bad_request", "env must be an object of strings")
    base = {"PATH": _PATH, "HOME": user.pw_dir, "USER": user.pw_name, "LOGNAME": user.pw_name, "LANG": "C.UTF-8"}
    return {**base, "SHELL": user.pw_shell or "/bin/sh", **{str(key): str(value) for key, value in variables.items()}}


def _account(body: dict[str, object]) -> pwd.struct_passwd:
    name = _text(body, "user", "root")
    try:
        return pwd.getpwnam(name)
    except KeyError as error:
        raise HttpError(404, "user_not_found", f"there is no user {name}") from error


def job_of_command(body: dict[str, object]) -> Job:
    """Parse the body of ``process/execute`` into a job."""
    command = _text(body, "command", "")
    if not command:
        raise HttpError(400, "bad_request", "command is missing")
    user = _account(body)
    cwd = _text(body, "cwd", user.pw_dir)
    seconds = _seconds(body, DEFAULT_TIMEOUT_S)
    return Job(["/bin/sh", "-c", command], user, cwd, _environment(body, user), seconds)


def job_of_code(body: dict[str, object]) -> Job:
    """Read the body of ``process/code-run``; the code goes to the interpreter's standard input."""
    language = _text(body, "language", "python")
    if language not in _LANGUAGES:
        raise HttpError(400, "bad_request", f"language must be one of {', '.join(sorted(_LANGUAGES))}")
    user = _account(body)
    source = _text(body, "code", "").encode()
    seconds = _seconds(body, CODE_TIMEOUT_S)
    return Job(
        ["/bin/sh", "-c", f"exec {_LANGUAGES[language]}"], user, user.pw_dir, _environment(body, user), seconds, source
    )


class Group:
    """A control group below the daemon's own; empty ones are removed when the next command starts."""

    _numbers = itertools.count()
    _lock = threading.Lock()
    _leftover: list[Path] = []  # noqa: RUF012 - one list for the process, on purpose

    def __init__(self, root: Path | None) -> None:
        self.path = root / f"exec-{next(self._numbers)}" if root else None
        if self.path:
            self._sweep()
            self.path.mkdir(exist_ok=True)

    def descriptor(self) -> int | None:
        """A file that a process writes "0" into to join; opened as root, so it works after the change of user."""
        return os.open(self.path / "cgroup.procs", os.O_WRONLY | os.O_CLOEXEC) if self.path else None

    def kill(self) -> None:
        """Kill every process in the group, in any session or process group."""
        if self.path:
            with contextlib.suppress(OSError):
                (self.path / "cgroup.kill").write_text("1")

    def leave(self) -> None:
        """Remove the group, or remember it while a process of the command still runs."""
        if self.path is None:
            return
        try:
            self.path.rmdir()
        except OSError:
            with self._lock:
                self._leftover.append(self.path)

    @classmethod
    def _sweep(cls) -> None:
        with cls._lock:
            remaining = []
            for path in cls._leftover:
                try:
                    path.rmdir()
                except FileNotFoundError:
                    continue
                except OSError:
                    remaining.append(path)
            cls._leftover[:] = remaining


def group_root() -> Path | None:
    """The parent for control groups with ``cgroup.kill``; None on a kernel without it."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            for mount in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
                own = mount / path.lstrip("/")
                if (own / "cgroup.procs").exists() and (own / "cgroup.kill").exists():
                    return own
    return None


@dataclass(frozen=True)
class Ended:
    """The end of a job; ``exit_code`` is 128 + the signal's number for a killed command."""

    exit_code: int
    duration_ms: int
    timed_out: bool


def run(job: Job, sink: Sink, root: Path | None) -> Ended:
    """Run one job to its end or its timeout. Nothing of a timed-out job survives.

    Args:
        root: Where control groups may be made; see ``group_root``.
    """
    started = time.monotonic()
    group = Group(root)
    try:
        child = _start(job, group)
        timed_out = True  # also when the caller hangs up: nobody would read the result
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


def _start(job: Job, group: Group) -> subprocess.Popen[bytes]:
    joining = group.descriptor()

    def join() -> None:
        if joining is not None:
            os.write(joining, b"0")

    other = job.user.pw_uid != os.getuid()
    try:
        with _standard_input(job.source) as stdin:
            return subprocess.Popen(
                job.arguments,
                stdin=stdin,
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


def _standard_input(source: bytes) -> BinaryIO:
    """Standard input: the source from memory, or nothing."""
    if not source:
        return Path(os.devnull).open("rb")
    file = open(os.memfd_create("source"), "w+b")  # noqa: PTH123, SIM115 - a descriptor; the caller closes it
    file.write(source)
    file.seek(0)
    return file


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
            try:
                data: bytes | None = os.read(key.fd, 64 * 1024)
            except BlockingIOError:
                data = None
            if data:
                sink(key.data, data)
            elif data == b"":
                selector.unregister(key.fileobj)
        if draining_until is not None and (not events or time.monotonic() >= draining_until):
            return False
        if draining_until is None and time.monotonic() >= deadline:
            return True
    return False


class Collector:
    """A sink that keeps output, up to a limit per stream."""

    def __init__(self) -> None:
        self._kept = {"stdout": bytearray(), "stderr": bytearray()}
        self.truncated = False

    def __call__(self, name: str, data: bytes) -> None:
        """Keep one piece of a stream's output."""
        buffer = self._kept[name]
        room = _OUTPUT_LIMIT - len(buffer)
        self.truncated = self.truncated or len(data) > room
        buffer += data[: max(0, room)]

    def text(self, name: str) -> str:
        """The output of one stream; bytes that are not UTF-8 are replaced."""
        return self._kept[name].decode("utf-8", "replace")
