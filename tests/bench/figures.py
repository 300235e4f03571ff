"""What benchmarks measured, each figure beside what it was compared to in the same run, in one table at the end."""

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

_WIDTH = 150
"""Columns; a narrower terminal wraps lines rather than loses figures."""


@dataclass(frozen=True)
class Figure:
    """One row.

    Attributes:
        what: The command or the work.
        took: The figure, with its unit.
        target: What the design wants of it; empty where it only explains another row.
        against: What it was compared to, and whether that was measured in this run.
        load: Load average of the last minute when it was taken, the benchmark's own work included.
    """

    what: str
    took: str
    target: str
    against: str
    load: float


@dataclass
class Board:
    """Collects figures; each is told as it comes, so that a run that is cut short has said something."""

    figures: list[Figure] = field(default_factory=list)
    load_before: float = field(default_factory=lambda: os.getloadavg()[0])

    def add(self, what: str, took: str, *, target: str = "", against: str = "") -> None:
        figure = Figure(what, took, target, against, os.getloadavg()[0])
        self.figures.append(figure)
        report(f"    {what.strip()}: {took}" + (f" (target {target})" if target else ""))

    def show(self) -> None:
        """Print the table."""
        table = Table(title=f"How fast: {os.cpu_count()} cores, load {self.load_before:.1f} before the first benchmark")
        for column in ("what", "figure", "target", "against", "load"):
            table.add_column(column, overflow="fold")
        for figure in self.figures:
            table.add_row(figure.what, figure.took, figure.target, figure.against, f"{figure.load:.1f}")
        Console(width=_WIDTH).print(table)


def report(line: str) -> None:
    """Narrate."""
    sys.stderr.write(f"{line}\n")
    sys.stderr.flush()


def seconds_of(run: Callable[[], object]) -> float:
    """How long one run takes."""
    started = time.perf_counter()
    run()
    return time.perf_counter() - started


def spread(seconds: Sequence[float], digits: int = 2) -> str:
    """Median and worst."""
    return f"p50 {statistics.median(seconds):.{digits}f} s, max {max(seconds):.{digits}f} s"
