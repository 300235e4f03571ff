"""A control group for each command, so that a timeout leaves nothing behind.

A process group is not enough: a child that calls ``setsid`` leaves it and lives on with the pipes in its hands.
"""

import contextlib
import itertools
import os
import threading
from pathlib import Path


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
        """End everything in it, sessions and process groups notwithstanding."""
        if self.path:
            with contextlib.suppress(OSError):
                (self.path / "cgroup.kill").write_text("1")

    def leave(self) -> None:
        """Remove it, or remember it while something the command left behind still runs."""
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
    """Where this daemon may make control groups with ``cgroup.kill``; None on a kernel without."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if number == "0" and not controllers:
            for mount in (Path("/sys/fs/cgroup/unified"), Path("/sys/fs/cgroup")):
                own = mount / path.lstrip("/")
                if (own / "cgroup.procs").exists() and (own / "cgroup.kill").exists():
                    return own
    return None
