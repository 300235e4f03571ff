"""What the daemon says about its machine: booted, since when, bootstrapped."""

import os
import subprocess
from pathlib import Path

from .config import BOOTSTRAPPED

_DONE = ("running", "degraded")


class Health:
    """Asks systemd until the boot is over and remembers the answer, since a boot ends once."""

    def __init__(self) -> None:
        self._state = "starting"

    def report(self) -> dict[str, object]:
        """``booted`` is true once systemd has nothing left to start, failed units included."""
        if self._state not in _DONE:
            self._state = _system_state()
        return {
            "status": "ok",
            "booted": self._state in _DONE,
            "state": self._state,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
            "uptime_s": round(uptime_s(), 2),
            "bootstrapped": BOOTSTRAPPED.exists(),
        }


def _system_state() -> str:
    asked = subprocess.run(
        ["systemctl", "is-system-running"], capture_output=True, text=True, check=False, env={"PATH": "/usr/bin:/bin"}
    )
    return asked.stdout.strip() or "starting"


def uptime_s() -> float:
    """Seconds since the machine's first process started: ``/proc/uptime`` is the host's on a local machine."""
    host = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    after_name = Path("/proc/1/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return host - int(after_name[19]) / os.sysconf("SC_CLK_TCK")
