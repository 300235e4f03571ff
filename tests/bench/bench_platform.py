"""How long the platform of AWS takes against mocks: its program, as a preview runs it, and policies over it.

Both in a process of their own, imports included; processor time stands beside the clock. Run as a program it does one.
"""

import resource
import subprocess
import sys
import time
from functools import partial

from hermesops.infra.stacks.platform.policies import violations
from tests.bench.figures import Board, seconds_of
from tests.support.platform.environments import ENVIRONMENTS, golden, run_of


def measure(board: Board) -> None:
    """Add the figures."""
    for what, target, *words in (
        ("preview of the platform of production with mocks, from a start of Python", "<= 5 s", "production"),
        ("policies over the platforms of all environments, from a start of Python", "<= 10 s", *ENVIRONMENTS),
    ):
        before = _processor_s()
        took = seconds_of(partial(_in_process, *words))
        board.add(what, f"{took:.1f} s", target=target, against=f"{_processor_s() - before:.1f} s of a processor")


def _processor_s() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _in_process(*environments: str) -> None:
    subprocess.run([sys.executable, "-m", "tests.bench.bench_platform", *environments], check=True)


def main(environments: list[str]) -> None:
    """Register the platforms, and judge them; what one consists of is told."""
    for environment in environments:
        begun = time.perf_counter()
        run = run_of(environment)
        violated = violations(run.judged)
        assert not violated, violated
        shape = f"{len(run.resources)} resources, {len(golden(run).splitlines())} lines"
        sys.stderr.write(f"    {environment}: {shape}, {time.perf_counter() - begun:.1f} s after imports\n")


if __name__ == "__main__":
    main(sys.argv[1:])
