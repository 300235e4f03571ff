"""Looking at a whole fleet that fills a registry: status, the console's first page, preview of a rollout, drift."""

import asyncio
import os
import resource
import statistics
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path

from hermesops.app import Container
from hermesops.console.front import PREFIX
from hermesops.settings.environment import Environment
from tests.bench.figures import Board, seconds_of, spread
from tests.support.fleets.filled_registry import beat, fill
from tests.support.fleets.in_memory import ordered
from tests.support.pages.console import console_client, empty_container
from tests.support.real.stores import postgresql
from tests.support.real.stores.registries import registry_at
from tests.support.vendor.fake_justavps import FakeJustAvps, served

RUNS = 5
MACHINES = 200
MANY = 10_000
MOST = 100_000
_HERMESOPS = str(Path(sys.executable).with_name("hermesops"))


def measure(board: Board, folder: Path) -> None:
    """Add the figures."""
    version = _timed(folder, _inherited(), "--version")
    for count, target in ((1_000, "<= 0.3 s beyond --version"), (MANY, "<= 1 s, <= 300 MB")):
        variables = _home(folder, count)
        took = _timed(folder, variables, "fleet", "status", "--json")
        beyond = f"{statistics.median(took.clock) - statistics.median(version.clock):.2f} s beyond --version"
        most = f"{resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024:.0f} MB at most"
        board.add(f"fleet status at {count:,}", f"{took}, {beyond}, {most}", target=target)
    for count, target in ((1_000, "<= 0.5 s"), (MANY, "<= 1 s"), (MOST, "<= 2 s")):
        for what, painted in _painted_of(folder, count).items():
            limit = target if what.startswith("first page") else "<= 0.3 s"
            board.add(
                f"console: {what} of {count:,} instances, PostgreSQL", painted, target=f"{limit} of the processor"
            )
    board.add(f"rollout preview at {MANY:,}", str(_previewed(folder)), target="<= 2 s")
    with served(FakeJustAvps(looks_until_ready=0)) as vendor:
        for number in range(MACHINES):
            row = ordered(number)
            vendor.add(row.instance.machine_name, id=row.instance.machine_id, status="ready", image_id=row.image_id)
        here = _home(folder, MACHINES) | {"HERMESOPS_API_URL": vendor.url, "HERMESOPS_API_KEY": vendor.key}
        took = _timed(folder, here, "fleet", "drift", "--json")
        board.add(f"fleet drift at {MACHINES}, no stacks made yet", str(took), target="<= 10 s")


def _painted_of(folder: Path, count: int) -> dict[str, str]:
    """The first page of a fleet of which nothing is known, and of one that is well but for a hundredth; searches."""
    with postgresql.running() as server:
        container = empty_container(folder / f"console-{count}")
        with closing(registry_at(server.new_registry())) as registry:
            container.__dict__["registry"] = registry
            fill(registry, count)
            unknown = _painted(container)
            beat(registry, silent_every=100)
            return {
                "first page, all unknown,": unknown,
                "first page, one in 100 down,": _painted(container),
                "search for one": _painted(container, "instances?q=user777"),
                "search for each": _painted(container, "instances?q=cell"),
            }


def _painted(container: Container, page: str = "") -> str:
    """Seconds of the clock and of the processor for a page; each run is a console that has read nothing yet."""

    async def paint() -> tuple[list[float], list[float]]:
        clock, processor = list[float](), list[float]()
        for _ in range(RUNS + 1):
            async with console_client(container) as client:
                began, used = time.perf_counter(), time.process_time()
                response = await client.get(PREFIX + page)
                clock.append(time.perf_counter() - began)
                processor.append(time.process_time() - used)
                assert response.status_code == HTTPStatus.OK
        return clock[1:], processor[1:]  # the first one imports

    clock, processor = asyncio.run(paint())
    return f"{spread(clock)}, of the server's processor {spread(processor)}"


def _previewed(folder: Path) -> "_Took":
    # A simulated world's release is of three small files.
    variables = _home(folder, MANY) | {"HERMESOPS_LOCAL_DRIVER": "sim"}
    subprocess.run([_HERMESOPS, "release", "build", "--quiet"], check=True, env=variables, cwd=folder)
    return _timed(folder, variables, "rollout", "preview", "0.19.0", "--all", "--json")


def _home(folder: Path, count: int) -> dict[str, str]:
    """Variables of an environment with so many instances."""
    home = folder / f"home-{count}"
    variables = {**_inherited(), "HERMESOPS_HOME": str(home)}
    if not home.exists():
        fill(Container(Environment.load("local", variables), lambda _: None).registry, count)
    return variables


def _inherited() -> dict[str, str]:
    """As a user has it: where Python may keep no bytecode, every run would compile all our modules anew."""
    ours = ("HERMESOPS_", "PYTHONDONTWRITEBYTECODE")
    return {name: value for name, value in os.environ.items() if not name.startswith(ours)}  # noqa: TID251 - as above


@dataclass(frozen=True)
class _Took:
    """Seconds by the clock of each run, and of processor time of all of them together."""

    clock: list[float]
    processor: float

    @property
    def each(self) -> float:
        """Processor time of one run."""
        return self.processor / len(self.clock)

    def __str__(self) -> str:
        return f"{spread(self.clock)}, processor {self.each:.2f} s"


def _timed(folder: Path, variables: dict[str, str], *words: str) -> _Took:
    def run() -> None:
        subprocess.run([_HERMESOPS, *words], check=True, env=variables, cwd=folder, stdout=subprocess.DEVNULL)

    run()  # warms the caches
    before = _processor_s()
    clock = [seconds_of(run) for _ in range(RUNS)]
    return _Took(clock, _processor_s() - before)


def _processor_s() -> float:
    """Of all children that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
