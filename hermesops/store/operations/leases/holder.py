"""The name under which a process holds leases, by which others see whether it has ended."""

import os
import re
import secrets
import socket

from hermesops.base import processes

_HOLDER = re.compile(r"[^:]*:(?P<pid>[0-9]{1,9}):(?P<where>[0-9a-f]{8})\.(?P<start>[0-9]+)\.[0-9a-f]+")


def this_process() -> str:
    """Return the holder text of this process: host, process id with its namespace and start, and a random part."""
    pid = os.getpid()
    start = processes.started(pid) or "0"
    return f"{socket.gethostname()}:{pid}:{processes.here().fingerprint}.{start}.{secrets.token_hex(4)}"


def is_gone(holder: str) -> bool:
    """Return whether the holder is a process of this computer that has ended."""
    match = _HOLDER.fullmatch(holder)
    return match is not None and processes.has_ended(match["where"], int(match["pid"]), match["start"])
