"""Who holds a lease, written so that another process of the same computer can see whether they are still there.

A lease tells the living from the dead by waiting until it runs out. Where the holder was a process of this very
computer, in sight of ours, a look is enough; everywhere else nothing is known, and the lease runs out.
"""

import hashlib
import os
import re
import secrets
import socket
from dataclasses import astuple

from hermesops import processes

_HOLDER = re.compile(r"[^:]*:(?P<pid>[0-9]{1,9}):(?P<where>[0-9a-f]{8})\.(?P<start>[0-9]+)\.[0-9a-f]+")


def this_process() -> str:
    """Who we are in a lease: host, process id, where and since when that counts, and a part that nobody else has."""
    pid = os.getpid()
    start = processes.started(pid) or "0"
    return f"{socket.gethostname()}:{pid}:{_where()}.{start}.{secrets.token_hex(4)}"


def is_gone(holder: str) -> bool:
    """Whether a holder was a process that could be seen from here, and is no more."""
    told = _HOLDER.fullmatch(holder)
    if not told or not processes.here().is_known or told["where"] != _where():
        return False
    return processes.is_gone(int(told["pid"]), told["start"])


def _where() -> str:
    return hashlib.sha256("\n".join(astuple(processes.here())).encode()).hexdigest()[:8]
