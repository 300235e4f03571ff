"""Free resources of this computer for machines: inotify instances, memory, disk. It changes nothing."""

import contextlib
import os
import shutil
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

INOTIFY_PER_MACHINE = 5
"""Instances a machine of our base takes (4 measured), and one for what watches its certificate (hermes_monitoring)."""

_INOTIFY_RESERVE = 8
_MEMORY_PER_MACHINE_MIB = 64
_DISK_PER_MACHINE_MIB = 256


@dataclass(frozen=True)
class FreeResources:
    """Free resources, counted at one moment."""

    inotify_limit: int
    inotify_free: int
    memory_free_mib: int
    disk_free_mib: int

    @property
    def machines(self) -> int:
        """Number of further machines that would boot."""
        return max(
            0,
            min(
                (self.inotify_free - _INOTIFY_RESERVE) // INOTIFY_PER_MACHINE,
                self.memory_free_mib // _MEMORY_PER_MACHINE_MIB,
                self.disk_free_mib // _DISK_PER_MACHINE_MIB,
            ),
        )

    def __str__(self) -> str:
        return (
            f"{self.inotify_free} of {self.inotify_limit} inotify instances free "
            f"(a machine takes {INOTIFY_PER_MACHINE}, {_INOTIFY_RESERVE} stay in reserve), "
            f"{self.memory_free_mib} MiB memory (a machine takes {_MEMORY_PER_MACHINE_MIB}), "
            f"{self.disk_free_mib} MiB disk (a machine takes {_DISK_PER_MACHINE_MIB})"
        )


def free_resources(state: Path, machines: Iterable[Iterable[int]]) -> FreeResources:
    """Count the free resources of this computer.

    Args:
        state: The world's folder, on the disk that machines grow on.
        machines: Process numbers of each machine that runs: one that still boots will take more than it holds now.
    """
    limit = int(Path("/proc/sys/fs/inotify/max_user_instances").read_text())
    instances = inotify_by_process()
    promised = 0
    for pids in machines:
        promised += max(INOTIFY_PER_MACHINE, sum(instances.pop(pid, 0) for pid in pids))
    memory = Path("/proc/meminfo").read_text().splitlines()
    return FreeResources(
        inotify_limit=limit,
        inotify_free=limit - promised - sum(instances.values()),
        memory_free_mib=next(int(line.split()[1]) // 1024 for line in memory if line.startswith("MemAvailable:")),
        disk_free_mib=shutil.disk_usage(state).free // 2**20,
    )


def inotify_by_process() -> dict[int, int]:
    """Inotify instances of each process of ours; shared ones count in each, which errs on the safe side."""
    counts = {}
    for entry in os.listdir("/proc"):  # noqa: PTH208 - names only
        if entry.isdecimal():
            with contextlib.suppress(OSError):
                if os.stat(f"/proc/{entry}").st_uid == os.getuid():  # noqa: PTH116 - hot loop over all processes
                    counts[int(entry)] = _inotify_of(f"/proc/{entry}/fd")
    return counts


def _inotify_of(folder: str) -> int:
    count = 0
    for name in os.listdir(folder):  # noqa: PTH208 - names only
        with contextlib.suppress(OSError):
            count += os.readlink(f"{folder}/{name}") == "anon_inode:inotify"  # noqa: PTH115 - no such file to be a Path of
    return count
