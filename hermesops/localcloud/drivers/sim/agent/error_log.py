"""The agent's log of errors on a simulated machine, written when somebody is about to read it.

Source: ``hermes_logging.py`` of hermes-agent 0.19.0.
"""

import stat
import time

from hermesops.localcloud.drivers.sim.disk import Disk
from hermesops.localcloud.drivers.sim.software import HOME, UID
from hermesops.localcloud.drivers.sim.store import Entry


def write(disk: Disk, errors: int, *, since: float, until: float) -> None:
    """Have it hold so many errors, evenly spread over a stretch of time in seconds since 1970."""
    every = (until - since) / errors
    moments = (time.localtime(since + number * every) for number in range(1, errors + 1))
    lines = (f"{time.strftime('%Y-%m-%d %H:%M:%S', each)},000 ERROR gateway.run: simulated\n" for each in moments)
    disk.put(f"{HOME}/logs", Entry(stat.S_IFDIR | 0o700, UID, UID, b""))
    disk.put(f"{HOME}/logs/errors.log", Entry(stat.S_IFREG | 0o600, UID, UID, "".join(lines).encode()))
