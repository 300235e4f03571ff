"""Bounds the memory of a program and of all that it starts, by a control group of systemd.

A limit of address space counts what a program reserves, for each process; a control group counts what all of them use
together, and its kernel ends the largest one. systemd makes the group, for root and for a user whose own systemd has
the memory controller. Whether it does is tried, and not concluded: containers have systemd without controllers.

Source: systemd-run(1), systemd.resource-control(5); the kernel's cgroup-v2.rst, ``memory.max`` and ``memory.events``.
"""

import os
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from hermesops.machines.release.source.limits import last_line

_BOOTED = Path("/run/systemd/system")
"""Is there where systemd is the first process: sd_booted(3)."""

_TRIED_S = 60.0
"""A systemd under load takes seconds for a unit; one that says nothing for a minute says nothing for a build either."""

_GROUP = "/sys/fs/cgroup$(sed -n 's/^0:://p' /proc/self/cgroup)"
_SHOWS = f'cat "{_GROUP}/memory.max"'
_WATCHES = f"""
report=$1
events="{_GROUP}/memory.events"
shift
trap : TERM
"$@"
code=$?
while read -r name value; do [ "$name" != oom_kill ] || echo "$value"; done <"$events" >"$report"
exit $code
"""
"""Runs a program, and writes how many processes the kernel ended in the group: it is gone once it is empty. systemd
ends all others of the group by SIGTERM then, also twice: this shell outlives that, and starts nothing any more."""


@dataclass(frozen=True)
class MemoryScope:
    """Makes a control group for each program.

    Attributes:
        limit_bytes: Memory of the program, its files in memory, and all that it starts.
    """

    limit_bytes: int

    @cached_property
    def obstacle(self) -> str:
        """Why systemd makes no such groups here; empty where it makes them, and they hold."""
        if not _BOOTED.is_dir() or shutil.which("systemd-run") is None:
            return "systemd does not run here"
        try:
            trial = subprocess.run(
                self.trial(), env=environment(), capture_output=True, text=True, timeout=_TRIED_S, check=False
            )
        except subprocess.TimeoutExpired:
            return f"systemd made no control group within {_TRIED_S:g} s"
        except OSError as error:
            return f"systemd-run does not start: {error.strerror}"
        if trial.stdout.strip() == str(self.limit_bytes):
            return ""
        return f"systemd bounds no memory here: {last_line(trial.stderr or trial.stdout)}"

    def trial(self) -> list[str]:
        """A command that prints the limit which holds for it, in bytes."""
        return [*self._made(), "/bin/sh", "-c", _SHOWS]

    def command(self, words: Sequence[str], report: Path) -> list[str]:
        """A command in a group of its own, which ends with this process; see ``kills_in`` for the report."""
        watch = ["/bin/sh", "-c", _WATCHES, "sh", str(report)]
        return ["setpriv", "--pdeathsig", "KILL", *self._made(), *watch, *words]

    def _made(self) -> list[str]:
        whose = [] if os.geteuid() == 0 else ["--user"]
        limits = (f"--property=MemoryMax={self.limit_bytes}", "--property=MemorySwapMax=0")
        return ["systemd-run", *whose, "--scope", "--quiet", "--collect", *limits, "--"]


def most_bytes() -> int:
    """The most memory for one group: half of this computer's, in whole pages, as the kernel keeps a limit."""
    return os.sysconf("SC_PHYS_PAGES") // 2 * os.sysconf("SC_PAGE_SIZE")


def kills_in(report: bytes) -> int:
    """The number of processes that the kernel ended for the limit; 0 where nothing was counted."""
    text = report.strip()
    return int(text) if text.isdigit() else 0


def environment() -> dict[str, str]:
    """What systemd-run needs of this process's environment."""
    return {"PATH": "/usr/bin:/bin", "XDG_RUNTIME_DIR": f"/run/user/{os.geteuid()}"}
