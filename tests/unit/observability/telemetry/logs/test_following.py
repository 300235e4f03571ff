"""A followed log outlives its connections, and no line is shown twice or lost."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.errors import HermesError, RefusedError, UnavailableError
from hermesops.observability.telemetry.logs import following
from hermesops.observability.telemetry.logs.following import Place, follow, poll
from hermesops.vendor.channel import AnswerLostError, CommandExpiredError

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
A, B, C = (f"2026-01-02T03:04:0{second}+0000 host unit[7]: {name}" for second, name in ((5, "a"), (6, "b"), (6, "c")))


@pytest.fixture(autouse=True)
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Seconds that were waited; none pass."""
    waited: list[float] = []

    async def wait(seconds: float) -> None:
        waited.append(seconds)

    monkeypatch.setattr(following, "pause", wait)
    return waited


class Log:
    """Connections, each with its lines and then its end: an error, or nothing for one that just ends."""

    def __init__(self, *connections: tuple[list[str], HermesError | None]) -> None:
        self._connections = list(connections)
        self.asked: list[tuple[int | None, datetime | None]] = []

    async def connect(self, most: int | None, since: datetime | None) -> AsyncGenerator[str, None]:
        self.asked.append((most, since))
        if not self._connections:
            raise RefusedError("the machine is gone")
        lines, end = self._connections.pop(0)
        for line in lines:
            yield line
        if end:
            raise end


async def drained(followed: AsyncGenerator[str, None]) -> list[str]:
    """What came before it was refused."""
    shown = []
    with suppress(RefusedError):
        async for line in followed:
            shown.append(line)  # noqa: PERF401 - it ends by an error
    return shown


async def read(log: Log) -> tuple[list[str], list[str]]:
    """The lines until the machine is gone, and what was narrated."""
    reports: list[str] = []
    followed = follow(log.connect, name="log of ada", most=3, since=None, report=reports.append)
    return await drained(followed), reports


async def test_a_broken_connection_is_made_again_from_the_last_second_on(pauses: list[float]) -> None:
    log = Log(([A, B], AnswerLostError("no answer")), ([], UnavailableError("no answer")), ([B, C], None))
    shown, reports = await read(log)
    assert shown == [A, B, C]
    assert reports == [
        "log of ada: no answer; connecting again in 1 s",
        "log of ada: no answer; connecting again in 2 s",
        "log of ada: connected again",
        "log of ada: its connection ended; connecting again in 1 s",
    ]
    assert pauses == [1.0, 2.0, 1.0]
    assert log.asked == [(3, None), *[(None, AT + timedelta(seconds=1))] * 3]


async def test_all_lines_that_came_without_a_connection_are_asked_for() -> None:
    meanwhile = [f"2026-01-02T03:04:07+0000 host unit[7]: line {number}" for number in range(12_000)]
    log = Log(([A, B], AnswerLostError("no answer")), ([B, *meanwhile], None))
    shown, _ = await read(log)
    assert shown == [A, B, *meanwhile]


async def test_lines_that_the_log_has_lost_meanwhile_are_reported() -> None:
    log = Log(([A], AnswerLostError("no answer")), ([B, C], AnswerLostError("no answer")), ([C, B], None))
    shown, reports = await read(log)
    assert shown == [A, B, C]
    lost = [line for line in reports if "lost" in line]
    assert lost == ["log of ada: it lost lines between 2026-01-02T03:04:05+0000 and 2026-01-02T03:04:06+0000"]


async def test_the_time_limit_of_a_connection_is_no_news(pauses: list[float]) -> None:
    log = Log(([A, A], CommandExpiredError("it took 600 s")), ([A, A, A], CommandExpiredError("it took 600 s")))
    assert await read(log) == ([A, A, A], [])
    assert pauses == []


async def test_attempts_become_rare_and_the_first_failure_ends_the_command(pauses: list[float]) -> None:
    await read(Log(([A], None), *[([], UnavailableError("no answer"))] * 7))
    assert pauses == [1.0, 2.0, 4.0, 8.0, 16.0, 30.0, 30.0, 30.0]
    log = Log(([], UnavailableError("no answer")))
    with pytest.raises(UnavailableError, match="no answer"):
        await anext(follow(log.connect, name="log", most=3, since=AT, report=print))


def test_a_line_without_a_time_belongs_to_the_one_before_it() -> None:
    place = Place()
    lines = [A, "  more of it", "  more of it"]
    assert all(map(place.is_new, lines))
    place.again()
    assert [place.is_new(line) for line in [*lines, "  more of it", B]] == [False, False, False, True, True]
    place.again()
    assert [place.is_new(line) for line in (C, B)] == [True, False], "of the same second, in another order"


def test_a_flood_within_one_second_is_not_remembered_whole() -> None:
    place = Place()
    for number in range(12_000):
        assert place.is_new(f"{A}{number}")
    assert place._lines.total() == 10_000


def asked(
    *answers: list[tuple[int, str]] | HermesError,
) -> tuple[list[datetime], Callable[[datetime, int], AsyncIterator[tuple[datetime, str]]]]:
    begins: list[datetime] = []
    rest = iter(answers)

    async def ask(begin: datetime, most: int) -> AsyncIterator[tuple[datetime, str]]:
        begins.append(begin)
        answer = next(rest, RefusedError("the end"))
        if isinstance(answer, HermesError):
            raise answer
        for second, line in answer[-most:]:
            yield AT + timedelta(seconds=second), line

    return begins, ask


async def test_a_log_that_is_asked_for_shows_each_entry_once_also_a_late_one() -> None:
    begins, ask = asked([(0, "a"), (50, "b")], UnavailableError("no answer"), [(25, "late"), (50, "b"), (51, "c")], [])
    reports: list[str] = []
    late = timedelta(seconds=30)
    polled = poll(ask, name="log", begin=AT, first=9, most=9, every_s=3.0, overlap=late, report=reports.append)
    assert await drained(polled) == ["a", "b", "late", "c"]
    assert reports == ["log: no answer; asked again in 3 s"]
    offsets = [(begin - AT).total_seconds() for begin in begins]
    assert offsets == [0.0, 20.0, 20.0, 21.0, 21.0]


async def test_lines_that_came_faster_than_answers_hold_are_said_to_be_left_out() -> None:
    many = [(second, f"line {second}") for second in range(10, 20)]
    _, ask = asked([(0, "before"), (1, "a"), (2, "b")], [(2, "b"), (3, "c"), (4, "d")], [(4, "d"), *many])
    reports: list[str] = []
    late = timedelta(seconds=30)
    polled = poll(ask, name="log", begin=AT, first=2, most=3, every_s=3.0, overlap=late, report=reports.append)
    assert await drained(polled) == ["a", "b", "c", "d", "line 17", "line 18", "line 19"]
    assert reports == ["log: more than 3 lines came at once; those between 03:04:09 and 03:04:22 UTC were left out"]
