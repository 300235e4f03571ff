"""Where lines of a log come from: what is asked first, what stands in for it, and what is said of that."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import RefusedError, UnavailableError, UsageError
from hermesops.model.fleet.instance import Instance
from hermesops.observability.telemetry.client import MonitoringClient
from hermesops.observability.telemetry.logs import instance_logs
from hermesops.observability.telemetry.logs.instance_logs import InstanceLogs, LogQuestion, LogSource
from hermesops.observability.telemetry.logs.loki import MOST_LINES
from tests.support.fakes.instances import ADA
from tests.support.fakes.monitoring import Answer, fake_monitoring, streams
from tests.support.suite.cases import each_case

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
QUERY = "GET /loki/api/v1/query_range"
UNIT = "hermes-gateway.service"
NOTE = "of a gateway only level and category of each line leave its machine"


class Machine:
    """A machine with a log, or without an answer."""

    def __init__(self, *lines: str, problem: str = "", hangs: bool = False) -> None:
        self._lines = lines
        self._problem = problem
        self._hangs = hangs
        self.follows = False
        self.asked: list[tuple[int | None, datetime | None, str]] = []

    async def log(
        self, instance: Instance, *, lines: int | None, follow: bool, since: datetime | None = None, unit: str = ""
    ) -> AsyncGenerator[str, None]:
        assert instance == ADA
        self.follows = follow
        self.asked.append((lines, since, unit))
        if self._problem:
            raise UnavailableError(self._problem)
        for line in self._lines[-(lines or 0) :]:
            yield line
        if self._hangs:
            await asyncio.Event().wait()

    def mask(self, instance: Instance) -> Callable[[str], str]:
        assert instance == ADA
        return lambda line: line.replace("secret", "***")


def logs(machine: Machine, client: MonitoringClient | None = None) -> InstanceLogs:
    return InstanceLogs(machine, client, lambda: NOW)


def question(most: int = 3, *, since: datetime | None = None, grep: str = "", unit: str = UNIT) -> LogQuestion:
    return LogQuestion(most, unit, since, grep)


async def test_without_monitoring_the_machine_is_asked() -> None:
    machine = Machine("one", "two", "three", "four")
    log = await logs(machine).read(ADA, question(), first=LogSource.MONITORING)
    assert (log.source, log.lines, log.note) == (LogSource.MACHINE, ("two", "three", "four"), "")
    assert machine.asked == [(3, None, UNIT)]


async def test_the_newest_lines_that_match_of_all_that_the_machine_has() -> None:
    machine = Machine("an error", "fine", "error 2", "fine", "error 3", "error 4", "fine")
    log = await logs(machine).read(ADA, question(2, grep="err.r [0-9]", unit="all"), first=LogSource.MACHINE)
    assert log.lines == ("error 3", "error 4")
    assert machine.asked == [(100_000, None, "")]


async def test_a_search_that_did_not_reach_the_whole_log_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_logs, "_READ", 3)
    machine = Machine("error 1", "error 2", "fine", "fine")
    excerpt = await logs(machine).read(ADA, question(2, grep="error"), first=LogSource.MACHINE)
    assert excerpt.lines == ("error 2",)
    assert "only the newest 3 lines were searched" in excerpt.note
    enough = await logs(machine).read(ADA, question(1, grep="error"), first=LogSource.MACHINE)
    assert "searched" not in enough.note


async def test_monitoring_is_asked_first_and_its_lines_are_masked() -> None:
    since, machine = NOW - timedelta(hours=2), Machine("never asked")
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams((UNIT, [(1767323045, "ERROR gateway secret")]))
        log = await logs(machine, monitoring.client).read(ADA, question(since=since), first=LogSource.MONITORING)
        assert log.lines == (f"2026-01-02T03:04:05+0000 {UNIT}: ERROR gateway ***",)
        assert (log.source, log.note, machine.asked) == (LogSource.MONITORING, NOTE, [])
        request = monitoring.asked[0]
        assert request.headers["x-scope-orgid"] == ADA.id
        assert (request.param("query"), request.param("start")) == (f'{{unit="{UNIT}"}}', "1767315845000000000")


@pytest.mark.parametrize("lines", [(), ((1767323045, "ERROR gateway"),)])
async def test_an_answer_that_lacks_a_part_says_so(lines: tuple[tuple[int, str], ...]) -> None:
    async with fake_monitoring() as monitoring:
        whole = streams((UNIT, list(lines)))
        monitoring.answers[QUERY] = Answer({**whole.body, "warnings": ["querier 2 timed out"]})
        log = await logs(Machine(), monitoring.client).read(ADA, question(), first=LogSource.MONITORING)
        assert "lines may be missing, as monitoring answers in part only: “querier 2 timed out”" in log.note


@pytest.mark.parametrize(
    ("answer", "note"),
    [
        (Answer(b"", 502), "loki at http"),
        (Answer(b"go away", 403), "loki at http"),
        (streams(), "the platform's monitoring has no such line"),
    ],
    ids=["silent", "refused", "empty"],
)
async def test_the_machine_stands_in_for_monitoring(answer: Answer, note: str) -> None:
    since = NOW - timedelta(hours=2)
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = answer
        machine = Machine("all of it")
        log = await logs(machine, monitoring.client).read(ADA, question(since=since), first=LogSource.MONITORING)
        assert (log.source, log.lines) == (LogSource.MACHINE, ("all of it",))
        assert log.note.startswith(note)
        assert machine.asked == [(100_000, since, UNIT)]


async def test_monitoring_stands_in_for_a_machine_that_does_not_answer() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams((UNIT, [(1767323045, "INFO gateway")]))
        machine = Machine(problem="machine m of ada is stopped")
        log = await logs(machine, monitoring.client).read(ADA, question(9000), first=LogSource.MACHINE)
        assert (log.source, len(log.lines)) == (LogSource.MONITORING, 1)
        assert log.note == f"machine m of ada is stopped; {NOTE}; monitoring gives 5000 lines at most"


async def test_where_neither_answers_it_is_what_the_first_one_came_to() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = Answer(b"go away", 403)
        machine = Machine(problem="machine m of ada is stopped")
        with pytest.raises(UnavailableError, match="is stopped"):
            await logs(machine, monitoring.client).read(ADA, question(), first=LogSource.MACHINE)
        with pytest.raises(RefusedError, match="403"):
            await logs(machine, monitoring.client).read(ADA, question(), first=LogSource.MONITORING)


async def test_no_line_anywhere_is_no_error() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams()
        log = await logs(Machine(), monitoring.client).read(ADA, question(), first=LogSource.MONITORING)
        assert (log.source, log.lines) == (LogSource.MONITORING, ())


async def test_a_followed_log_is_of_the_source_that_was_chosen_and_filtered() -> None:
    machine = Machine("an error", "fine", "error 2", hangs=True)
    followed = logs(machine).follow(ADA, question(grep="err.r [0-9]"), source=LogSource.MACHINE, report=print)
    async with aclosing(followed) as lines:
        assert await anext(lines) == "error 2"
    assert machine.follows
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams((UNIT, [(1767323045, "ERROR gateway secret")]))
        of = logs(machine, monitoring.client)
        async with aclosing(of.follow(ADA, question(), source=LogSource.MONITORING, report=print)) as lines:
            assert await anext(lines) == f"2026-01-02T03:04:05+0000 {UNIT}: ERROR gateway ***"
    with pytest.raises(UsageError, match="no monitoring"):
        await anext(logs(machine).follow(ADA, question(), source=LogSource.MONITORING, report=print))


async def test_a_followed_log_of_monitoring_is_asked_for_few_lines_once_and_then_for_all_that_come(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(instance_logs, "_POLL_S", 0.01)
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams((UNIT, [(1767323045, "a")]))
        followed = logs(Machine(), monitoring.client).follow(
            ADA, question(most=1), source=LogSource.MONITORING, report=print
        )
        async with asyncio.timeout(5), aclosing(followed) as lines:
            await anext(lines)
            monitoring.answers[QUERY] = streams((UNIT, [(1767323045 + second, "b") for second in range(5)]))
            assert [(await anext(lines))[17:19] for _ in range(5)] == ["05", "06", "07", "08", "09"]
        assert [request.param("limit") for request in monitoring.asked][:2] == ["1", str(MOST_LINES)]


async def test_a_machine_that_never_ends_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(instance_logs, "_MACHINE_S", 0.05)
    with pytest.raises(UnavailableError, match="not whole after"):
        await logs(Machine("one", hangs=True)).read(ADA, question(), first=LogSource.MACHINE)


async def test_a_regular_expression_that_loki_alone_does_not_take() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = Answer(b"invalid perl operator: (?<", 400)
        with pytest.raises(UsageError, match="perl") as refused:
            await logs(Machine(), monitoring.client).read(ADA, question(grep="(?<=a)b"), first=LogSource.MONITORING)
        assert refused.value.field == "grep"


@each_case(
    ("unit", "grep", "field"),
    [
        ("a b", "", "unit"),
        ("", "", "unit"),
        ("$(id)", "", "unit"),
        ("a", "(", "grep"),
        ("a", "x" * 1001, "grep"),
    ],
)
def test_what_cannot_be_asked(unit: str, grep: str, field: str) -> None:
    with pytest.raises(UsageError) as refused:
        question(unit=unit, grep=grep)
    assert refused.value.field == field
