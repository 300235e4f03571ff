"""How long the programs take to start, beside an interpreter that does nothing: whole processes, in turns.

Their processor time stands beside it: on a busy computer it says more than the clock.
"""

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

from tests.bench.figures import Board, seconds_of, spread

RUNS = 11
_BIN = Path(sys.executable).parent
_PYTHON = "python -c pass"


def measure(board: Board) -> None:
    """Add the figures."""
    programs = {
        _PYTHON: ("", lambda: _run(sys.executable, "-c", "pass")),
        "hermesops --version": ("<= 0.05 s", lambda: _run(_BIN / "hermesops", "--version")),
        "hermesops --help": ("<= 0.25 s", lambda: _run(_BIN / "hermesops", "--help")),
        "pulumi-resource-justavps, to its port": ("<= 0.35 s", _start_plugin),
        "python -c 'import pulumi'": ("", lambda: _run(sys.executable, "-c", "import pulumi")),
    }
    took: dict[str, list[float]] = {name: [] for name in programs}
    busy: dict[str, list[float]] = {name: [] for name in programs}
    # In turns, so that a busy moment hits all alike; the first one warms the caches.
    for attempt in range(RUNS + 1):
        for name, (_, run) in programs.items():
            before = processor_s()
            seconds = seconds_of(run)
            if attempt:
                took[name].append(seconds)
                busy[name].append(processor_s() - before)
    beside = statistics.median(took[_PYTHON])
    for name, (target, _) in programs.items():
        ours = statistics.median(took[name])
        against = f"{_PYTHON}: {beside:.3f} s, {ours / beside:.1f}x" if name != _PYTHON else ""
        figure = f"{spread(took[name], 3)}, processor {statistics.median(busy[name]):.3f} s"
        board.add(name, figure, target=target, against=against)


def _run(*command: str | Path) -> None:
    # Where Python may keep no bytecode, every run would compile all our modules anew: no user's Python does.
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}  # noqa: TID251 - as above
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environ)


def processor_s() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _start_plugin() -> None:
    with subprocess.Popen([_BIN / "pulumi-resource-justavps"], stdout=subprocess.PIPE, text=True) as plugin:
        assert plugin.stdout is not None
        assert plugin.stdout.readline().strip().isdigit()
        plugin.terminate()
