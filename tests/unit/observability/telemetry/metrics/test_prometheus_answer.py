"""Readers of Prometheus take a part of an answer, or an error, for no answer; a bad series costs no other one."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from hermesops.agents.health.prometheus import PlatformPrometheus, Prometheus
from hermesops.agents.health.promql import DEFAULTS, LABEL
from hermesops.automation.monitor.metrics.platform_metrics import PlatformMetrics
from hermesops.errors import UnavailableError
from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.metrics.prometheus import Metrics
from hermesops.observability.telemetry.metrics.prometheus_answer import Sample, by_label
from tests.support.fakes.monitoring import Answer, FakeMonitoring, fake_monitoring

NOW = datetime(2026, 1, 2, 4, tzinfo=UTC)
ADA, BOB, CLEO = InstanceId("i-ada"), InstanceId("i-bob"), InstanceId("i-cleo")
MEMORY = {Vital.MEMORY: DEFAULTS[Vital.MEMORY]}


def series(instance: str, value: object = "7", **labels: str) -> dict[str, Any]:
    return {"metric": {LABEL: instance, **labels}, "value": [1, value]}


HISTOGRAM = {"metric": {LABEL: BOB}, "histogram": [1, {"count": "3", "sum": "4", "buckets": []}]}
ENDLESS = {"metric": {LABEL: "x" * 2_000}, "value": [1, "1"]}


def answer(*result: object, status: int = 200, **more: object) -> Answer:
    data = {"resultType": "vector", "result": list(result)}
    return Answer({"status": "success", "data": data, **more}, status)


async def _gate(monitoring: FakeMonitoring) -> Mapping[str, float]:
    return await _memory(Prometheus(f"http://127.0.0.1:{monitoring.port}", MEMORY))


async def _platform_gate(monitoring: FakeMonitoring) -> Mapping[str, float]:
    return await _memory(PlatformPrometheus(monitoring.client, MEMORY))


async def _memory(server: Prometheus) -> Mapping[str, float]:
    vitals_by_id = await server.vitals([ADA, BOB, CLEO], since=NOW - timedelta(hours=1), until=NOW)
    return {each: vitals.figures[Vital.MEMORY] for each, vitals in vitals_by_id.items() if vitals.figures}


async def _labelled(monitoring: FakeMonitoring) -> Mapping[str, float]:
    return (await Metrics(monitoring.client).by_label("up", LABEL)).values


async def _monitor(monitoring: FakeMonitoring) -> Mapping[str, float]:
    samples = await PlatformMetrics(monitoring.client).query("up")
    return {sample["metric"][LABEL]: float(sample["value"][1]) for sample in samples}


READERS: tuple[Callable[[FakeMonitoring], Awaitable[Mapping[str, float]]], ...] = (
    _gate,
    _platform_gate,
    _labelled,
    _monitor,
)
BY_INSTANCE = READERS[:3]


async def read(
    reader: Callable[[FakeMonitoring], Awaitable[Mapping[str, float]]], answer: Answer
) -> Mapping[str, float]:
    async with fake_monitoring() as monitoring:
        for path in ("GET /api", "POST /api", "POST /prometheus"):
            monitoring.answers[path] = answer
        return await reader(monitoring)


async def test_a_part_of_an_answer_or_an_error_is_no_answer() -> None:
    error = Answer({"status": "error", "errorType": "timeout", "error": "query timed out \x1b[2J"})
    with_data = Answer({"status": "error", "error": "query timed out", "data": None})
    for document, words in (
        (answer(series(ADA, "0"), warnings=["store gone: 10.0.0.1"]), "in part only: “store gone"),
        (answer(series(ADA, "0"), isPartial=True), "in part only"),
        (answer(series(ADA, "0"), warnings=["\x1b[2J" + "x" * 5_000]), "in part only"),
        (error, "an error: “query timed out"),
        (with_data, "an error: “query timed out"),
    ):
        for reader in READERS:
            with pytest.raises(UnavailableError, match=words) as caught:
                await read(reader, document)
            assert caught.value.message.isprintable(), reader
            assert len(caught.value.message) < 400, reader


async def test_what_only_informs_changes_nothing() -> None:
    for reader in READERS:
        document = answer(series(ADA), infos=["metric might not be a counter"], warnings=[], isPartial=False)
        assert await read(reader, document) == {ADA: 7}, reader


async def test_a_series_that_is_no_figure_costs_no_other_series() -> None:
    for bad in (HISTOGRAM, ENDLESS, {"metric": {LABEL: BOB}}, series(BOB, "many"), series(BOB, "NaN"), 7):
        for reader in BY_INSTANCE:
            assert await read(reader, answer(series(ADA), bad, series(CLEO, "8"))) == {ADA: 7, CLEO: 8}, (bad, reader)


async def test_an_instance_with_several_series_has_no_figure() -> None:
    for second in (series(BOB, "2", replica="b"), series(BOB, "NaN", replica="b"), HISTOGRAM):
        for reader in BY_INSTANCE:
            assert await read(reader, answer(series(BOB, "1"), second, series(ADA))) == {ADA: 7}, (second, reader)


async def test_it_is_told_why_an_instance_with_several_series_has_no_figure() -> None:
    async with fake_monitoring() as monitoring:
        monitoring.answers["GET /api"] = answer(series(BOB), series(BOB, "8", replica="b"), series(ADA))
        server = Prometheus(f"http://127.0.0.1:{monitoring.port}", MEMORY)
        vitals = await server.vitals([ADA, BOB, CLEO], since=NOW - timedelta(hours=1), until=NOW)
    assert "several series" in vitals[BOB].missing[Vital.MEMORY]
    assert "no figure" in vitals[CLEO].missing[Vital.MEMORY]


async def test_other_questions_about_a_part_are_not_answered_either() -> None:
    async with fake_monitoring() as monitoring:
        metrics = Metrics(monitoring.client)
        for path in ("GET /prometheus/api/v1/rules", "GET /prometheus/api/v1/alerts", "POST /prometheus"):
            data = {"groups": [], "alerts": [], "resultType": "matrix", "result": []}
            monitoring.answers[path] = Answer({"status": "success", "data": data, "warnings": ["a store is gone"]})
        for question in (metrics.alert_names(), metrics.alerts(), metrics.range("up", begin=NOW, end=NOW, step_s=1)):
            with pytest.raises(UnavailableError, match="in part only"):
                await question


def test_of_two_figures_with_one_label_none_counts() -> None:
    figures = by_label((Sample({"a": "x"}, 1), Sample({"a": "y"}, 2), Sample({"a": "x"}, 1), Sample({}, 3)), "a")
    assert figures.values == {"y": 2, "": 3}
    assert figures.ambiguous == {"x"}
