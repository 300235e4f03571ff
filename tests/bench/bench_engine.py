"""How long an ``up`` without changes takes: the embedded engine beside the pulumi CLI, same program, same plugin.

Where there is no CLI, its figures recorded on 2 cores stand in for it, and the row says so. Run as a program it does
one ``up`` in a world that is there already, for ``cold``.
"""

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from hermesops.infra.engine import EngineConfig, make_engine
from hermesops.infra.engine.choose import find_cli
from hermesops.infra.engine.interface import Engine
from hermesops.infra.engine.options import Program, read_passphrase
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import StackRef
from tests.bench.figures import Board

RUNS = 5
RECORDED_S = {10: 2.5, 50: 2.9}
"""Seconds of the CLI 3.259.0 for 11 and 51 resources, file backend, passphrase, inline program, 2 cores, 2026-11-21."""

TARGETS = {10: 5.0, 50: 3.0}
STACK = StackRef("fleet", "bench")


def program(count: int, *, secret: bool = False) -> Program:
    """A cell of machines; with a secret among its outputs the state's key has to be derived."""

    def run() -> None:
        import pulumi  # noqa: PLC0415  the cold figure includes it

        from hermesops.infra.stacks.fleet import FleetProgram  # noqa: PLC0415  as above

        names = [MachineName(f"hermes-local-bench-{number:012x}") for number in range(count)]
        machines = tuple(CellMachine(name, "starter", "hel1", None, None) for name in names)
        FleetProgram(CellSpec(CellName("bench"), machines))()
        if secret:
            pulumi.export("word", pulumi.Output.secret("hidden"))

    return run


def engine(kind: str, folder: Path) -> Engine:
    """An engine over the folder's state, its vendor and its passphrase."""
    environment = {
        "HERMESOPS_API_URL": (folder / "url").read_text(),
        "HERMESOPS_API_KEY_FILE": str(folder / "key"),
        "HOME": str(folder),
        "PATH": os.environ["PATH"],  # noqa: TID251  a CLI is looked for where the caller's shell does
    }
    return make_engine(
        kind,
        EngineConfig(
            backend=folder / kind,
            passphrase=partial(read_passphrase, folder / "passphrase"),
            environment=environment,
        ),
        production=False,
    )


def unchanged(kind: str, folder: Path, count: int, *, secret: bool = False) -> float:
    """Seconds of one ``up`` that changes nothing: the median of several."""
    took = []
    for attempt in range(RUNS + 1):
        started = time.perf_counter()
        asyncio.run(engine(kind, folder).up(STACK, program(count, secret=secret)))
        if attempt:  # the first one makes the machines
            took.append(time.perf_counter() - started)
    return statistics.median(took)


def cold(folder: Path, count: int) -> float:
    """The same in a process of its own: the interpreter's start and the import of the SDK included."""
    took = []
    for _ in range(RUNS):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "tests.bench.bench_engine", str(folder), str(count)], check=True)
        took.append(time.perf_counter() - started)
    return statistics.median(took)


def in_world(kind: str, count: int, *, secret: bool = False, also_cold: bool = False) -> tuple[float, float]:
    """Measure in a fresh world."""
    from tests.support.vendor.fake_justavps import FakeJustAvps, served  # noqa: PLC0415  its server is no part of the cold figure

    with tempfile.TemporaryDirectory() as name, served(FakeJustAvps()) as vendor:
        folder = Path(name)
        for file, text in (("url", vendor.url), ("key", vendor.key), ("passphrase", "a passphrase")):
            (folder / file).write_text(text)
            (folder / file).chmod(0o600)
        warm = unchanged(kind, folder, count, secret=secret)
        return warm, cold(folder, count) if also_cold else 0.0


def measure(board: Board) -> None:
    """Add the figures; the targets hold for the first row of each size."""
    has_cli = find_cli({"PATH": os.environ["PATH"]}) is not None  # noqa: TID251  see engine()
    for count in (10, 50):
        against = in_world("cli", count)[0] if has_cli else RECORDED_S[count]
        label = f"pulumi CLI, {'measured here' if has_cli else 'recorded'}: {against:.2f} s"
        warm, alone = in_world("embedded", count, also_cold=True)
        secret = in_world("embedded", count, secret=True)[0]

        def row(what: str, took: float, target: str = "", *, cli: float = against, label: str = label) -> None:
            board.add(what, f"{took:.2f} s", target=target, against=f"{label}, {cli / took:.1f}x")

        row(f"embedded up without changes, {count} machines", warm, f">= {TARGETS[count]:g}x faster")
        row("  with a secret among the outputs", secret)
        row("  in a process of its own, SDK's import included", alone)


if __name__ == "__main__":
    asyncio.run(engine("embedded", Path(sys.argv[1])).up(STACK, program(int(sys.argv[2]))))
