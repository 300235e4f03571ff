"""Who holds a lease, written so that another process of the same computer can see whether they are still there.

A lease tells the living from the dead by waiting until it runs out. Where the holder was a process of this very
computer, in sight of ours, a look is enough; everywhere else nothing is known, and the lease runs out.

Source: proc(5), ``/proc/PID/stat`` (state, start time), ``hidepid`` and ``sys/kernel/random/boot_id``; kill(2);
pid_namespaces(7).
"""

import hashlib
import os
import re
import secrets
import socket
from contextlib import suppress
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_HOLDER = re.compile(r"[^:]*:(?P<pid>[0-9]{1,9}):(?P<where>[0-9a-f]{8})\.(?P<start>[0-9]+)\.[0-9a-f]+")
_STATE, _START = 0, 19
"""Fields 3 and 22 of ``stat``, counted from the one behind the name, which may hold anything."""

_DEAD = frozenset("ZXx")


def this_process() -> str:
    """Who we are in a lease: host, process id, where and since when that counts, and a part that nobody else has."""
    start = _stat(os.getpid())[_START] if _here() else "0"
    return f"{socket.gethostname()}:{os.getpid()}:{_here() or '0' * 8}.{start}.{secrets.token_hex(4)}"


def is_gone(holder: str) -> bool:
    """Whether a holder was a process that could be seen from here, and is no more."""
    told = _HOLDER.fullmatch(holder)
    if not (told and _here() and told["where"] == _here()):
        return False
    pid = int(told["pid"])
    # Asked first, since a computer may hide from users what processes others have, but never that there are any.
    with suppress(PermissionError):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
    try:
        fields = _stat(pid)
    except OSError:
        return False
    return fields[_STATE] in _DEAD or fields[_START] != told["start"]


@cache
def _here() -> str:
    """What process ids count in: this boot of this computer, and our view of its processes; empty if unknown."""
    with suppress(OSError):
        boot = (_PROC / "sys/kernel/random/boot_id").read_text(encoding="ascii")
        view = os.stat(_PROC / "self/ns/pid").st_ino  # noqa: PTH116 - the file itself is a link
        return hashlib.sha256(f"{boot}{view}".encode()).hexdigest()[:8]
    return ""


def _stat(pid: int) -> list[str]:
    return (_PROC / str(pid) / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
