"""The name under which a process holds leases, by which others see whether it has ended."""

import os
import re
import secrets
import socket

from hermesops.base import processes

_HOLDER = re.compile(r"[^:]*:(?P<pid>[0-9]{1,9}):(?P<where>[0-9a-f]{8})\.(?P<start>[0-9]+)\.[0-9a-f]+")


def this_process() -> str:
    """This process as a holder: host, process id, where and since when that id is valid, and a random part."""
    pid = os.getpid()
    start = processes.started(pid) or "0"
    return f"{socket.gethostname()}:{pid}:{processes.here().fingerprint}.{start}.{secrets.token_hex(4)}"


def is_gone(holder: str) -> bool:
    """Whether a holder was a process that can be seen from here, and has ended."""
    told = _HOLDER.fullmatch(holder)
    return told is not None and processes.has_ended(told["where"], int(told["pid"]), told["start"])
