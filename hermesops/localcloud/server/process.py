"""The server as a process of its own: started detached, found by its lock, stopped by its number.

It must not know the purpose of the process.
"""

import contextlib
import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from hermesops.base.files.disk import is_refusal, not_written
from hermesops.base.files.private_file import make_private_folder
from hermesops.base.waiting import Pending, until
from hermesops.errors import BrokenInvariantError, HermesError, Hint, RefusedError, UnavailableError, UsageError

NARRATION = "» "
"""Begins the lines of the log that are narration for people who wait for the server."""

_STOP_TIMEOUT_S = 30.0
_LOG_LIMIT = 4 * 1024 * 1024
_BY_EXIT_CODE: Mapping[int, type[HermesError]] = {
    kind.exit_code: kind for kind in (UsageError, RefusedError, UnavailableError, BrokenInvariantError)
}


def try_lock(descriptor: int) -> bool:
    """Lock an open file for this process alone, until it is closed; false while another process has it."""
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def hold(lock: Path) -> Iterator[None]:
    """Hold the lock of a server while the block lasts; the file has our process id, and the kernel frees it if we die.

    Raises:
        RefusedError: Another process has it.
    """
    make_private_folder(lock.parent)
    descriptor = os.open(lock, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        if not try_lock(descriptor):
            raise RefusedError(f"another server has {lock.parent}", hint=Hint(("local", "status")))
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        os.close(descriptor)


class ServerProcess:
    """One world's server, running or not; it holds ``lock`` while it runs, and ``log`` gets its output."""

    def __init__(self, lock: Path, log: Path) -> None:
        self._lock = lock
        self._log = log
        self._started: subprocess.Popen[bytes] | None = None
        self._read = log.stat().st_size if log.exists() else 0
        self._lines: list[str] = []

    def pid(self) -> int:
        """Process id of the server that holds the lock; 0 when none does.

        Raises:
            RefusedError: The world belongs to another user of this computer.
        """
        try:
            descriptor = os.open(self._lock, os.O_RDONLY)
        except FileNotFoundError:
            return 0
        except PermissionError as error:
            raise RefusedError(f"{self._lock.parent} belongs to another user", hint="run as its owner") from error
        with os.fdopen(descriptor, "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read() or 0)
        return 0

    def start(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Start it in a session of its own, so that it outlives this process and its terminal."""
        try:
            make_private_folder(self._lock.parent)
        except OSError as error:
            if is_refusal(error):
                raise not_written(self._lock.parent, error) from error
            raise RefusedError(
                f"nothing can be kept in {self._lock.parent}: {error.strerror}",
                hint="set HERMESOPS_HOME to a folder this user may write to",
            ) from error
        if self._log.exists() and self._log.stat().st_size > _LOG_LIMIT:
            self._log.replace(self._log.with_name(f"{self._log.name}.1"))
        with os.fdopen(os.open(self._log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600), "ab") as log:
            self._read = log.tell()
            # Seen on the disk first: a server whose log is full could not even say so.
            try:
                log.write(b"starting\n")
                log.flush()
                os.fsync(log.fileno())
            except OSError as error:
                raise not_written(self._log, error) from error
            self._started = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                cwd="/",
                env=environment,
            )

    def give_up(self) -> None:
        """End the process of ``start``: a half-started server would block the next command."""
        if self._started is not None and self._started.poll() is None:
            self._started.terminate()

    def narrate(self, report: Callable[[str], None]) -> None:
        """Pass on the narration since the last call."""
        for line in self._new_lines():
            if line.startswith(NARRATION):
                report(line.removeprefix(NARRATION))

    def check(self) -> None:
        """Check that the process of ``start`` still runs.

        Raises:
            HermesError: It ended, unless another server has taken its place; of the class its exit code says.
        """
        if self._started is None or self._started.poll() is None or self.pid():
            return
        self._new_lines()
        kind = _BY_EXIT_CODE.get(self._started.returncode, UnavailableError)
        message = self._last("error: ") or f"the local world's server ended with exit code {self._started.returncode}"
        raise kind(message, hint=self._last("hint: ") or f"its log: {self._log}")

    async def stop(self) -> None:
        """Request the end, and kill the process if it does not end; a server that does not run is success."""
        pid = self.pid()
        if not pid:
            return
        asked_at = time.monotonic()
        os.kill(pid, signal.SIGTERM)

        async def gone() -> bool | Pending[bool]:
            if self.pid() != pid:
                return True
            if time.monotonic() - asked_at > _STOP_TIMEOUT_S:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return Pending("it still runs")

        await until(gone, what="the server to end", timeout_s=_STOP_TIMEOUT_S + 5, every_s=0.02)

    def _new_lines(self) -> list[str]:
        with contextlib.suppress(FileNotFoundError), self._log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
            whole = data[: data.rfind(b"\n") + 1]
            self._read += len(whole)
            new = whole.decode(errors="replace").splitlines()
            self._lines += new
            return new
        return []

    def _last(self, beginning: str) -> str:
        lines = [line for line in self._lines if line.startswith(beginning)]
        return lines[-1].removeprefix(beginning) if lines else ""
