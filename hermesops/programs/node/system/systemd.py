"""The operating system around hermes-node: accounts, systemd, the agent's HTTP API on loopback, time.

This module is the ``System`` of ``node.ports`` on a real machine; it must not decide anything.
"""

import pwd
import time
from pathlib import Path

from hermesops.programs.node.instance.agent.api import ask
from hermesops.programs.node.system.files import Access
from hermesops.wire import processes
from hermesops.wire.errors import NotReadyError

__all__ = ["account", "ask", "connections", "monotonic", "now", "sleep", "systemctl"]

monotonic = time.monotonic
"""Seconds on the clock that systemd's monotonic times are of."""

now = time.time
"""Seconds since 1970."""

sleep = time.sleep
"""Wait some seconds."""


def account(user: str) -> Access | None:
    """The access of a private file of a user's; ``None`` when there is no such user."""
    try:
        entry = pwd.getpwnam(user)
    except KeyError:
        return None
    return Access(0o600, entry.pw_uid, entry.pw_gid)


def systemctl(*words: str, check: bool = True) -> str:
    """Run systemctl; return its output.

    Raises:
        NotReadyError: It cannot be run, or, with ``check``, it failed.
    """
    done = processes.run(("systemctl", *words), timeout_s=150)
    if check and done.returncode:
        message = done.stderr.decode(errors="replace").strip()
        raise NotReadyError(f"systemctl {' '.join(words)}: {message or done.returncode}")
    return done.stdout.decode(errors="replace")


_ESTABLISHED = "01"


def connections(port: int) -> int:
    """Number of open connections to a port of the machine.

    Source: proc(5), ``/proc/net/tcp``: local address, remote address and state are the second to the fourth column.
    """
    count = 0
    for table in ("tcp", "tcp6"):
        try:
            lines = Path("/proc/net", table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            local, _, state = line.split()[1:4]
            count += state == _ESTABLISHED and int(local.rpartition(":")[2], 16) == port
    return count
