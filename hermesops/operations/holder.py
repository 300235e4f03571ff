"""Who holds a lease, written so that another process of the same computer can see whether they are still there.

A lease tells the living from the dead by waiting until it runs out. Where the holder was a process of this very
computer, in sight of ours, a look is enough; everywhere else nothing is known, and the lease runs out.
"""

import os
import re
import secrets
import socket

from hermesops import processes

_HOLDER = re.compile(r"[^:]*:(?P<pid>[0-9]{1,9}):(?P<where>[0-9a-f]{8})\.(?P<start>[0-9]+)\.[0-9a-f]+")


def this_process() -> str:
    """Who we are in a lease: host, process id, where and since when that counts, and a part that nobody else has."""
    pid = os.getpid()
    start = processes.started(pid) or "0"
    return f"{socket.gethostname()}:{pid}:{processes.here().fingerprint}.{start}.{secrets.token_hex(4)}"


def is_gone(holder: str) -> bool:
    """Whether a holder was a process that could be seen from here, and is no more."""
    told = _HOLDER.fullmatch(holder)
    return told is not None and processes.has_ended(told["where"], int(told["pid"]), told["start"])
