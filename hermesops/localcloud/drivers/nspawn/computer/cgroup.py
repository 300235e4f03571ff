"""One control group per machine, in every hierarchy: its identity, its limit and its kill switch.

Both layouts are known: version 1 with a bare version 2 tree beside it, and version 2 alone.
"""

import contextlib
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.nspawn.computer.command import holds_within

_ROOT = Path("/sys/fs/cgroup")
# Every controller there is, whether it limits or not: a machine that sits at the root of a hierarchy sees that root's
# ``release_agent``, a program that the kernel runs as this computer's root.
_V1 = (
    *("systemd", "unified", "memory", "pids", "cpu", "cpuacct", "freezer", "devices", "blkio", "cpuset"),
    *("net_cls", "net_prio", "perf_event", "hugetlb", "rdma", "misc"),
)
_DEVICES = (
    *("c *:* m", "b *:* m"),  # making a node is harmless, opening it is not
    *("c 1:3 rwm", "c 1:5 rwm", "c 1:7 rwm", "c 1:8 rwm", "c 1:9 rwm"),  # null, zero, full, random, urandom
    *("c 5:0 rwm", "c 5:2 rwm", "c 136:* rwm"),  # tty, ptmx, pts
)
"""What machines may open. Source: systemd-nspawn's own list (``src/nspawn/nspawn-register.c``)."""

_V1_LIMIT = {"memory": "memory.limit_in_bytes", "cpu": "cpu.shares"}  # the root has no quota file, but shares
_PERIOD_US = 100_000
_PIDS = 4096
_KILL_S = 10.0
_TICK_S = 0.02


def _is_v2() -> bool:
    return (_ROOT / "cgroup.controllers").exists()


def _hierarchies() -> list[Path]:
    hierarchies = [_ROOT] if _is_v2() else [_ROOT / name for name in _V1 if (_ROOT / name / "cgroup.procs").exists()]
    if not hierarchies:
        raise RefusedError("this computer has no control groups below /sys/fs/cgroup", hint="mount cgroup2 there")
    return hierarchies


def unlimited() -> tuple[str, ...]:
    """Limits among ``memory`` and ``cpu`` that no hierarchy of this computer supports."""
    if _is_v2():
        there = set((_ROOT / "cgroup.controllers").read_text().split())
    else:
        there = {name for name in ("memory", "cpu") if any((_ROOT / name).glob(_V1_LIMIT[name]))}
    return tuple(name for name in ("memory", "cpu") if name not in there)


class WorldGroups:
    """The control groups of one world: a folder of its name in each hierarchy, machines below."""

    def __init__(self, name: str) -> None:
        self._name = name

    def machine(self, name: str) -> "MachineGroup":
        """The group of one machine, existing or not."""
        return MachineGroup([root / self._name / name for root in _hierarchies()])

    def names(self) -> set[str]:
        """Names of all machines that have a group."""
        folders = [root / self._name for root in _hierarchies()]
        return {entry.name for folder in folders if folder.is_dir() for entry in folder.iterdir() if entry.is_dir()}

    def prepare(self) -> None:
        """Make the world's folders in all hierarchies."""
        for root in _hierarchies():
            _make(root / self._name)
            if _is_v2():
                for folder in (root, root / self._name):
                    (folder / "cgroup.subtree_control").write_text("+memory +pids +cpu")
            else:
                _confine_devices(root / self._name)

    def remove(self) -> None:
        """Remove the world's folders; its machines must be gone."""
        for root in _hierarchies():
            with contextlib.suppress(FileNotFoundError):
                (root / self._name).rmdir()


class MachineGroup:
    """The control group of one machine."""

    def __init__(self, folders: list[Path]) -> None:
        self.folders = folders
        # In version 1 machines nest groups only in the tree of systemd; the one for pids stays flat, quick to read.
        self._counted = next((folder for folder in folders if folder.is_relative_to(_ROOT / "pids")), folders[0])

    def _find(self, file: str) -> Path | None:
        return next((folder / file for folder in self.folders if (folder / file).exists()), None)

    def create(self, *, memory_mib: int, vcpu: int) -> None:
        """Make the group with its limits; safe to call again."""
        for folder in self.folders:
            _make(folder)
        limits = {
            "memory.limit_in_bytes": str(memory_mib * 1024 * 1024),
            "memory.max": str(memory_mib * 1024 * 1024),
            "cpu.cfs_quota_us": str(vcpu * _PERIOD_US),
            "cpu.max": f"{vcpu * _PERIOD_US} {_PERIOD_US}",
            "pids.max": str(_PIDS),
        }
        for file, value in limits.items():
            path = self._find(file)
            if path:
                path.write_text(value)

    def pids(self) -> list[int]:
        """Every process of the machine, its keeper included, as this computer numbers them.

        One hierarchy is enough: a process is in the machine's part of each, and cannot leave it from within.
        """
        pids: set[int] = set()
        for folder, _, _ in os.walk(self._counted):
            with contextlib.suppress(OSError):
                pids.update(int(line) for line in Path(folder, "cgroup.procs").read_text().split())
        return sorted(pids - {0})

    def leader(self) -> int | None:
        """The machine's first process, as this computer numbers it; None when it is not running."""
        return next((pid for pid in self.pids() if _is_first_of_a_machine(pid)), None)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        """Freeze the whole machine for the length of a ``with``."""
        self.set_frozen(frozen=True)
        try:
            yield
        finally:
            self.set_frozen(frozen=False)

    def set_frozen(self, *, frozen: bool) -> None:
        """Freeze or thaw; return after the kernel confirms it."""
        state = self._find("freezer.state")
        if state:
            state_name = "FROZEN" if frozen else "THAWED"
            state.write_text(state_name)
            _wait(lambda: state.read_text().strip() == state_name, f"the machine to be {state_name.lower()}")
            return
        switch = self._find("cgroup.freeze")
        if switch:
            switch.write_text("1" if frozen else "0")
            wanted_line = f"frozen {int(frozen)}"
            _wait(lambda: wanted_line in (switch.parent / "cgroup.events").read_text(), "the machine to be frozen")

    def kill(self) -> None:
        """End every process in the group, and wait until they are gone.

        Raises:
            UnavailableError: A process does not die, since it is stuck in the kernel.
        """
        with contextlib.suppress(FileNotFoundError):
            self.set_frozen(frozen=False)
        switch = self._find("cgroup.kill")
        if switch:
            with contextlib.suppress(OSError):
                switch.write_text("1")

        def emptied() -> bool:
            left = self.pids()
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            return not left

        _wait(emptied, "the machine's processes to end")

    def remove(self) -> None:
        """Remove its folders, the innermost first; the kernel says busy for some milliseconds after a kill."""

        def removed() -> bool:
            for top in self.folders:
                for folder, _, _ in os.walk(top, topdown=False):
                    with contextlib.suppress(OSError):
                        os.rmdir(folder)  # noqa: PTH106 - os.walk gives strings
            return not any(folder.exists() for folder in self.folders)

        _wait(removed, "the machine's control groups to be removed")


def _make(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    if _is_v2():
        return
    for name in ("cpuset.cpus", "cpuset.mems"):
        own = folder / name
        if own.exists() and not own.read_text().strip():
            own.write_text((folder.parent / name).read_text())  # empty, nothing may join


def _confine_devices(folder: Path) -> None:
    """Close this computer's devices to a world: above its machines, so that none can open them to itself again."""
    devices = folder / "devices.list"
    if devices.exists() and devices.read_text().startswith("a "):
        (folder / "devices.deny").write_text("a")
        for rule in _DEVICES:
            (folder / "devices.allow").write_text(rule)


def _is_first_of_a_machine(pid: int) -> bool:
    """Source: proc(5), NSpid: one number per namespace, the innermost last."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False
    numbers = next((line.split()[1:] for line in status.splitlines() if line.startswith("NSpid:")), [])
    return len(numbers) > 1 and numbers[-1] == "1"


def _wait(check: Callable[[], bool], what: str) -> None:
    if not holds_within(check, _KILL_S, every_s=_TICK_S):
        raise UnavailableError(f"waited {_KILL_S:g} s for {what}")
