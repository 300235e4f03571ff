"""A pytest plugin: it measures each test and prints, at the end of a run, where the run's time went.

It fails no test: seconds say as much about a busy computer as about a test. Processor seconds are those of the worker
and of the programs that it started and waited for; a booted machine's own are not among them.
"""

import resource
import time
import tomllib
from collections import Counter, defaultdict
from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pytest import Config, Item, Session, StashKey, TerminalReporter, TestReport  # noqa: PT013 - types of hooks

from tests.support.real.commands import fork_server
from tests.support.suite.turns import TURNS, Turn, turn_of

BUDGETS = Path(__file__).parents[2] / "budgets.toml"
LONGEST = 20
"""Tests that are listed by name."""

_NAME = 120
"""Characters of a test's id; parameters can be long."""

UNIT_S = 1.0
"""Processor seconds above which a unit test is named."""

_LATE = 1.5
"""How much longer than it says a turn may take, as workers share the processor, before it is named."""


@dataclass(frozen=True)
class Cost:
    """The time that one test took, with the fixtures that were set up and torn down for it.

    Attributes:
        test: Its id.
        wall_s: From its begin to its end.
        processor_s: Of its worker and of ended children.
        turn: The turn that it belongs to; ``None`` where it always runs.
    """

    test: str
    wall_s: float
    processor_s: float
    turn: Turn | None = None

    @property
    def folder(self) -> str:
        """The folder that its budget belongs to, as ``tests/unit``; full counts are told by file."""
        folder = "/".join(self.test.split("/")[:2])
        return self.test.partition("::")[0] if folder == "tests/soak" else folder

    def __str__(self) -> str:
        return f"{self.wall_s:8.1f} s {self.processor_s:8.1f} s  {self.test[:_NAME]}"


@dataclass(frozen=True)
class Worker:
    """One process that ran tests.

    Attributes:
        name: As xdist names it, ``main`` without xdist.
        collection_s: Processor seconds until it knew all tests.
    """

    name: str
    collection_s: float


class Clock:
    """Wall and processor time since it was made."""

    def __init__(self) -> None:
        self._wall, self._processor = time.monotonic(), _processor_s()

    def cost_of(self, test: str) -> Cost:
        """The time until now, as that test's cost."""
        return Cost(test, time.monotonic() - self._wall, _processor_s() - self._processor)


class Costs:
    """The costs of a run, taken in the workers and gathered where the run ends."""

    def __init__(self) -> None:
        self._costs: list[Cost] = []
        self._workers: list[Worker] = []
        self._ended: dict[str, float] = {}
        self._began = time.monotonic()
        self._collection_s = 0.0
        self._turns: list[str] = []

    @pytest.hookimpl
    def pytest_collection_finish(self, session: Session) -> None:
        """Take the time of collection: imports of a worker begin with its process."""
        self._collection_s = _processor_s()
        self._turns = session.config.stash.get(TURNS, [])
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput |= {"collection_s": self._collection_s, "turns": self._turns}

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: Item) -> Generator[None, object, object]:
        """Start a test's clock before its first fixture."""
        item.stash[_CLOCK] = Clock()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: Item) -> Generator[None, Any, Any]:
        """Send the cost with a test's last report; xdist brings it from the worker."""
        report = yield
        if report.when == "teardown":
            cost = item.stash[_CLOCK].cost_of(item.nodeid)
            turn = turn_of(item)
            report.cost = (cost.wall_s, cost.processor_s, (turn.seconds, turn.name) if turn else None)
        return report

    @pytest.hookimpl
    def pytest_runtest_logreport(self, report: TestReport) -> None:
        """Gather a test's cost."""
        if seconds := getattr(report, "cost", None):
            wall_s, processor_s, turn = seconds
            self._costs.append(Cost(report.nodeid, wall_s, processor_s, Turn(*turn) if turn else None))
            self._ended[getattr(report, "worker_id", "main")] = time.monotonic()

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:  # noqa: ANN401 - xdist has no types
        """Gather a worker's collection; one that crashed has sent none."""
        if output := getattr(node, "workeroutput", {}):
            self._workers.append(Worker(node.gateway.id, output["collection_s"]))
            self._turns = output["turns"]

    @pytest.hookimpl
    def pytest_terminal_summary(self, terminalreporter: TerminalReporter) -> None:
        """Print where the time went."""
        workers = self._workers or [Worker("main", self._collection_s)]
        if self._costs:
            terminalreporter.section("where the time went", sep="-")
            for line in [*self._turns, *summary(self._costs, workers, self._waited(), budgets(BUDGETS))]:
                terminalreporter.write_line(line)

    def _waited(self) -> float:
        """The share of the run in which workers had ended while another one still ran."""
        last = max(self._ended.values())
        run_s = (last - self._began) * len(self._ended)
        return sum(last - ended for ended in self._ended.values()) / run_s if run_s else 0.0


_CLOCK = StashKey[Clock]()


def pytest_configure(config: Config) -> None:
    """Measure this process."""
    config.pluginmanager.register(Costs())


def budgets(path: Path) -> dict[str, float]:
    """The committed processor seconds of each folder.

    Raises:
        ValueError: The file is no TOML, or holds other tables or values than seconds.
    """
    seconds = tomllib.loads(path.read_text(encoding="utf-8"))["processor_seconds"]
    return {str(folder): float(budget) for folder, budget in seconds.items()}


def summary(costs: Iterable[Cost], workers: Iterable[Worker], waited: float, budget: dict[str, float]) -> Iterator[str]:
    """The lines that end a run.

    Args:
        costs: One for each test.
        workers: The processes that ran them.
        waited: The share, 0 to 1, of all workers' time in which one waited for another's last tests.
        budget: Processor seconds of each folder.
    """
    costs = list(costs)
    collections = ", ".join(f"{worker.name} {worker.collection_s:.1f} s" for worker in workers)
    yield f"collection, processor: {collections}; workers waited for each other {waited:.0%} of the run"
    yield from _folders(costs, budget)
    yield f"the {LONGEST} longest, wall and processor seconds, with the fixtures that they set up:"
    yield from map(str, sorted(costs, key=lambda cost: -cost.wall_s)[:LONGEST])
    slow = [cost for cost in costs if cost.folder == "tests/unit" and cost.processor_s > UNIT_S]
    yield f"unit tests above {UNIT_S:.0f} s of processor: {len(slow) or 'none'}"
    yield from map(str, sorted(slow, key=lambda cost: -cost.processor_s))
    yield from late_turns(costs)


def late_turns(costs: Iterable[Cost]) -> Iterator[str]:
    """The turns that took much longer than they say, the latest first: the parts of a run are of the size they say."""
    took: defaultdict[Turn, float] = defaultdict(float)
    for cost in costs:
        if cost.turn:
            took[cost.turn] += cost.wall_s
    late = {turn: wall_s for turn, wall_s in took.items() if wall_s > _LATE * turn.seconds}
    for turn, wall_s in sorted(late.items(), key=lambda pair: pair[0].seconds - pair[1]):
        yield f"took {wall_s:.0f} s and says {turn.seconds:.0f} s: {turn.name[:_NAME]}"


def _folders(costs: list[Cost], budget: dict[str, float]) -> Iterator[str]:
    tests, wall, processor = Counter[str](), Counter[str](), Counter[str]()
    for cost in costs:
        tests[cost.folder] += 1
        wall[cost.folder] += cost.wall_s  # type: ignore[assignment]  # a Counter sums floats as well
        processor[cost.folder] += cost.processor_s  # type: ignore[assignment]
    width = max(map(len, tests)) + 2
    yield f"{'folder':<{width}}{'tests':>7}{'wall s':>9}{'processor s':>13}{'budget s':>10}"
    for folder in sorted(tests):
        allowed = budget.get(folder)
        over = " over" if allowed is not None and processor[folder] > allowed else ""
        shown = "none" if allowed is None else f"{allowed:.0f}"
        yield f"{folder:<{width}}{tests[folder]:>7}{wall[folder]:>9.0f}{processor[folder]:>13.0f}{shown:>10}{over}"


def _processor_s() -> float:
    used = map(resource.getrusage, (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in used) + fork_server.used_s()
