"""Processes as others of the same computer can tell them apart: where a number counts, since when, whether it is gone.

Source: proc(5), ``/proc/PID/stat`` (state, parent, start time), ``hidepid`` and ``sys/kernel/random/boot_id``; kill(2);
pid_namespaces(7).
"""

import hashlib
import os
from dataclasses import astuple, dataclass
from pathlib import Path

_STATE, _PARENT, _START = 0, 1, 19
"""Fields 3, 4 and 22 of ``stat``, counted from the one behind the name, which may hold spaces and brackets."""

_DEAD = frozenset("ZXx")


@dataclass(frozen=True)
class Place:
    """Where a process's number counts; a part that is not known is empty.

    Attributes:
        host: The computer's machine id.
        boot: Of which boot of it.
        namespace: In whose view of its processes.
    """

    host: str
    boot: str
    namespace: str

    @property
    def is_known(self) -> bool:
        """Whether no other place can look the same."""
        return bool(self.boot and self.namespace)

    @property
    def fingerprint(self) -> str:
        """Eight hex digits of all parts, for names that say where a process runs."""
        return hashlib.sha256("\n".join(astuple(self)).encode()).hexdigest()[:8]


def here() -> Place:
    """Where numbers of processes count that we see."""
    boot = _read(Path("/proc/sys/kernel/random/boot_id"))
    return Place(_read(Path("/etc/machine-id")), boot, _link(Path("/proc/self/ns/pid")))


def started(pid: int) -> str:
    """When a process that we see started, in the kernel's ticks; empty where there is none."""
    fields = _stat(pid)
    return fields[_START] if fields else ""


def descends(pid: int, ancestor: int) -> bool:
    """Whether a process that we see is another one, or was started by it or by one that it started."""
    while pid not in {0, 1, ancestor}:
        fields = _stat(pid)
        pid = int(fields[_PARENT]) if fields else 0
    return pid == ancestor


def is_visible(fingerprint: str) -> bool:
    """Whether processes of a place can be seen from here: it has to be this very place, in all its parts.

    A machine id alone tells no computers apart: containers have none, and clones of one image share theirs. So nothing
    is known of another boot either, though it may have been an earlier one of this computer.
    """
    ours = here()
    return ours.is_known and fingerprint == ours.fingerprint


def has_ended(fingerprint: str, pid: int, start: str) -> bool:
    """Whether a process has provably ended. Leases and locks of stacks are taken over by this rule and no other.

    Args:
        start: As ``started`` returned it; where that is empty only a number that is not in use proves the end.
    """
    return is_visible(fingerprint) and _is_gone(pid, start)


def _is_gone(pid: int, start: str) -> bool:
    """Whether there is no process of that number any more that started then; a zombie is none."""
    # Asked first, since a computer may hide from users what processes others have, but never that there are any.
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (PermissionError, OverflowError):
        pass
    fields = _stat(pid)
    return bool(fields) and (fields[_STATE] in _DEAD or bool(start and fields[_START] != start))


def _stat(pid: int) -> list[str]:
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return fields if len(fields) > _START else []


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""
