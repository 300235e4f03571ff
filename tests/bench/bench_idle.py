"""An idle agent's machine: processor time and memory of everything on it, from its control group."""

import subprocess
import sys
from pathlib import Path

from hermesops.base import waiting
from hermesops.localcloud.drivers.nspawn.world_lock import tag_of
from tests.bench.bench_start import processor_s
from tests.bench.figures import Board, report
from tests.support.real.commands.command import Command

SETTLES_S = 90
"""Seconds from a fresh agent to an idle one: its first start, its first metrics and orders."""

MEASURED_S = 300
_SAMPLES = 60


async def measure(board: Board, command: Command, profile: str) -> None:
    """Add the figures of one agent's machine, in a world that has no other one; ``profile`` is of its monitoring."""
    await command.ok("provision", "idle", "--plan", "light")
    machines = Machines(command.home / "local" / "world")
    report(f"==> an agent that nobody asks anything, {SETTLES_S} + {MEASURED_S} s")
    await waiting.pause(SETTLES_S)
    before, memory = machines.seconds(), []
    for _ in range(_SAMPLES):
        await waiting.pause(MEASURED_S / _SAMPLES)
        memory.append(machines.memory_bytes())
    spent = (machines.seconds() - before) / (MEASURED_S / 60)
    board.add(
        f"an idle agent's machine, monitoring {profile}, everything on it",
        f"{spent:.2f} s of processor a minute",
        target="<= 0.6 s",
        against=f"python -c pass takes {_python_s():.3f} s of processor now; on a quiet computer of two cores 0.009 s",
    )
    mean, most = sum(memory) / len(memory) / 1e6, max(memory) / 1e6
    board.add("  its memory that is no file's", f"{mean:.0f} MB on average, {most:.0f} MB at most")


class Machines:
    """Everything that runs on the machines of a local world.

    Args:
        world: Its folder.
    """

    def __init__(self, world: Path) -> None:
        self._name = f"lc{tag_of(world)}"

    def seconds(self) -> float:
        """Processor time so far."""
        usage = Path("/sys/fs/cgroup/cpuacct", self._name, "cpuacct.usage")
        if usage.exists():
            return int(usage.read_text()) / 1e9
        return self._numbers("cpu.stat")["usage_usec"] / 1e6

    def memory_bytes(self) -> int:
        """Memory now, without what is a copy of files."""
        stat = Path("/sys/fs/cgroup/memory", self._name, "memory.stat")
        return self._numbers(stat)["total_rss"] if stat.exists() else self._numbers("memory.stat")["anon"]

    def _numbers(self, file: Path | str) -> dict[str, int]:
        lines = Path("/sys/fs/cgroup", self._name, file).read_text().splitlines()
        return {name: int(number) for name, number in (line.split() for line in lines)}


def _python_s() -> float:
    """Processor time of the smallest process, the least of 20: it says how busy the rest of the computer is."""
    spent = []
    for _ in range(20):
        before = processor_s()
        subprocess.run([sys.executable, "-IS", "-c", "pass"], check=True)
        spent.append(processor_s() - before)
    return min(spent)
