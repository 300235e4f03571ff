"""Lines as Loki answers them, and answers that are none."""

from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.errors import UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.client import WrongQuestionError
from hermesops.observability.telemetry.logs.loki import LogLine, Loki
from tests.support.fakes.monitoring import Answer, FakeMonitoring, fake_monitoring, streams
from tests.support.suite.cases import each_case

BEGIN, END = datetime(2026, 1, 2, 3, tzinfo=UTC), datetime(2026, 1, 2, 4, microsecond=5, tzinfo=UTC)
QUERY = "GET /loki/api/v1/query_range"
ADA = InstanceId("i-ada")


async def ask(monitoring: FakeMonitoring, **wanted: Any) -> tuple[LogLine, ...]:  # noqa: ANN401 - options of lines
    return (await Loki(monitoring.client).lines(ADA, begin=BEGIN, end=END, **wanted)).lines


async def test_lines_of_all_units_in_one_order_the_newest_last() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams(("b.service", [(30, "three"), (10, "one")]), ("kernel", [(20, "two")]))
        log_lines = await ask(monitoring)
        assert [(log_line.at.timestamp(), log_line.unit, log_line.text) for log_line in log_lines] == [
            (10, "b.service", "one"),
            (20, "kernel", "two"),
            (30, "b.service", "three"),
        ]
        assert [log_line.text for log_line in await ask(monitoring, most=2)] == ["two", "three"]
        request = monitoring.asked[0]
        assert request.headers["x-scope-orgid"] == ADA
        assert dict(request.params) == {
            "query": '{unit=~".+"}',
            "start": "1767322800000000000",
            "end": "1767326400000005000",
            "limit": "5000",
            "direction": "backward",
        }


async def test_words_of_an_operator_stay_within_their_quotation() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams()
        assert await ask(monitoring, unit='a"}', grep='"} or {x="\\d\n', most=7) == ()
        request = monitoring.asked[0]
        assert request.param("query") == '{unit="a\\"}"} |~ "\\"} or {x=\\"\\\\d\\n"'
        assert request.param("limit") == "7"


async def test_a_line_of_a_size_that_nobody_reads_is_cut() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = streams(("u", [(1, "x" * 20_000)]))
        assert len((await ask(monitoring))[0].text) == 16 * 1024


async def test_a_regular_expression_that_is_none() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = Answer(b"error parsing regexp: missing )", 400)
        with pytest.raises(WrongQuestionError, match="missing"):
            await ask(monitoring, grep="(")


def _values(values: object) -> dict[str, object]:
    return {"data": {"resultType": "streams", "result": [{"stream": {}, "values": values}]}}


@each_case(
    "answer",
    [
        None,
        {},
        {"data": []},
        {"data": {"resultType": "matrix", "result": []}},
        {"data": {"resultType": "streams", "result": [1]}},
        _values([["1", 7]]),
        _values([["now", "x"]]),
        _values([["1"]]),
        _values([[str(10**30), "x"]]),
        _values([["1", "x"]] * 5001),
    ],
    ids=lambda answer: str(answer)[:60],
)
async def test_what_are_no_lines(answer: object) -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers[QUERY] = Answer(answer)
        with pytest.raises(UnavailableError, match="something else than lines"):
            await ask(monitoring)
