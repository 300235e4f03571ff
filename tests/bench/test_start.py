"""How long the programs take to start: medians beside their targets, printed and not judged."""

import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table

BIN = Path(sys.executable).parent
RUNS = 9


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    table = Table("program", "median", "worst", "target", title=f"start-up, {RUNS} runs each")
    yield table
    Console().print(table)


def measure(run: Callable[[], None]) -> list[float]:
    """Seconds of each run, after one that warms the caches."""
    run()
    seconds = []
    for _ in range(RUNS):
        began = time.perf_counter()
        run()
        seconds.append(time.perf_counter() - began)
    return seconds


def add(table: Table, program: str, target: str, run: Callable[[], None]) -> None:
    seconds = measure(run)
    table.add_row(program, f"{statistics.median(seconds):.3f} s", f"{max(seconds):.3f} s", target)


@pytest.mark.parametrize(("option", "target"), [("--version", "0.12 s"), ("--help", "0.25 s")], ids=["version", "help"])
def test_the_command_line(table: Table, option: str, target: str) -> None:
    command = [str(BIN / "hermesops"), option]
    add(table, f"hermesops {option}", target, lambda: run(command))


def test_the_plugin_until_its_port(table: Table) -> None:
    add(table, "pulumi-resource-justavps, to its port", "0.35 s", start_plugin)


def test_what_the_plugin_leaves_out(table: Table) -> None:
    add(table, "for comparison: python -c 'import pulumi'", "", lambda: run([sys.executable, "-c", "import pulumi"]))


def run(command: list[str]) -> None:
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def start_plugin() -> None:
    with subprocess.Popen([BIN / "pulumi-resource-justavps"], stdout=subprocess.PIPE, text=True) as plugin:
        assert plugin.stdout is not None
        assert plugin.stdout.readline().strip().isdigit()
        plugin.terminate()
