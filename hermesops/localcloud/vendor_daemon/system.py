"""The machine's health and its processes, for the toolbox."""

import contextlib
import os
import pwd
import signal
import subprocess
from pathlib import Path

from .files import name_of
from .http import HttpError

_DONE = ("running", "degraded")
_BOOTSTRAPPED = Path("/var/lib/justavps/bootstrapped")
"""Exists once the machine's own init script has ended well, or when it has none."""


class Health:
    """Polls systemd until the boot is over and caches the answer, since a boot ends once."""

    def __init__(self) -> None:
        self._state = "starting"

    def report(self) -> dict[str, object]:
        """``booted`` is true once systemd has nothing left to start, failed units included."""
        if self._state not in _DONE:
            command = ["systemctl", "is-system-running"]
            env = {"PATH": "/usr/bin:/bin"}
            shown = subprocess.run(command, capture_output=True, text=True, check=False, env=env).stdout.strip()
            self._state = shown or "starting"
        return {
            "status": "ok",
            "booted": self._state in _DONE,
            "state": self._state,
            "boot_id": Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip(),
            "uptime_s": round(_uptime_s(), 2),
            "bootstrapped": _BOOTSTRAPPED.exists(),
        }


def _uptime_s() -> float:
    """Seconds since the machine's first process started: ``/proc/uptime`` is the host's on a local machine."""
    host = float(Path("/proc/uptime").read_text(encoding="ascii").split()[0])
    after_name = Path("/proc/1/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return host - int(after_name[19]) / os.sysconf("SC_CLK_TCK")


def take_name() -> None:
    """Name this process ``justavps-daemon``, as the vendor's is called, instead of the interpreter's name."""
    Path("/proc/self/comm").write_text("justavps-daemon", encoding="ascii")


def processes() -> list[dict[str, object]]:
    """The processes of the machine, by number."""
    listed: list[dict[str, object]] = []
    for entry in sorted((p for p in os.listdir("/proc") if p.isdecimal()), key=int):  # noqa: PTH208 - names only
        with contextlib.suppress(OSError):
            listed.append(_process(int(entry)))
    return listed


def _process(pid: int) -> dict[str, object]:
    lines = Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines()
    fields = {key: value.strip() for key, _, value in (line.partition(":") for line in lines)}
    command = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace").strip()
    rss_kib = int(fields.get("VmRSS", "0 kB").split()[0])
    name = fields.get("Name", "")
    return {
        "pid": pid,
        "ppid": int(fields.get("PPid", "0")),
        "user": name_of(pwd.getpwuid, int(fields.get("Uid", "0").split()[0])),
        "command": name,
        "args": command or f"[{name}]",
        "state": fields.get("State", "?")[:1],
        "memory_rss_bytes": rss_kib * 1024,
    }


def kill(body: dict[str, object]) -> dict[str, object]:
    """Send a signal (``TERM`` by default) to one process; the machine's first process and the daemon are protected."""
    pid = body.get("pid")
    if not isinstance(pid, int) or isinstance(pid, bool) or pid < 1:
        raise HttpError(400, "bad_request", "pid must be a positive number")
    if pid in (1, os.getpid()):
        raise HttpError(403, "protected", f"process {pid} is protected")
    number = _signal(body.get("signal", "TERM"))
    try:
        os.kill(pid, number)
    except ProcessLookupError as error:
        raise HttpError(404, "not_found", f"there is no process {pid}") from error
    return {"killed": True, "pid": pid, "signal": signal.Signals(number).name.removeprefix("SIG")}


def _signal(value: object) -> int:
    name = str(value).upper().removeprefix("SIG")
    try:
        return signal.Signals(int(name)).value if name.isdecimal() else signal.Signals[f"SIG{name}"].value
    except (KeyError, ValueError) as error:
        raise HttpError(400, "bad_request", f"there is no signal {value}") from error
