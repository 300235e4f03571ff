"""Figures out of a real Prometheus are those that nodes would have told, and what it has nothing of is absent."""

import socket
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.health.prometheus import Prometheus
from hermesops.agents.health.promql import LABEL, Query
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.fleet.vitals import Source, Vital
from hermesops.model.ids import InstanceId
from tests.support.real.monitoring import prometheus
from tests.support.real.monitoring.prometheus import Series
from tests.support.suite.prerequisites import require

BEGIN = datetime(2026, 1, 15, 8, tzinfo=UTC)
EVERY_S = 30
HOUR = timedelta(hours=1)
ADA, BOB, NOBODY = InstanceId("ada-1"), InstanceId("bob.2"), InstanceId("nobody")


def _counter(metric: str, whose: str, per_hour: float) -> Series:
    timestamps = [BEGIN.timestamp() + number * EVERY_S for number in range(241)]
    return Series(
        metric, "counter", {LABEL: whose}, [(at, per_hour * (at - timestamps[0]) / 3600) for at in timestamps]
    )


def _gauge(metric: str, whose: str, before: float, after: float) -> Series:
    """One value in the first hour, another in the second."""
    timestamps = [BEGIN.timestamp() + number * EVERY_S for number in range(241)]
    return Series(
        metric, "gauge", {LABEL: whose}, [(at, before if at < timestamps[121] else after) for at in timestamps]
    )


PAST = (
    _counter("hermes_gateway_errors_total", ADA, 12),
    _counter("hermes_gateway_errors_total", BOB, 0),
    _counter("hermes_gateway_restarts_total", ADA, 2),
    _gauge("hermes_turn_seconds", ADA, 0.5, 1.5),
    _gauge("hermes_turn_seconds", BOB, 0.5, 0.5),
    _gauge("hermes_gateway_memory_bytes", ADA, 100, 300),
    _gauge("hermes_queue_age_seconds", ADA, 0, 90),
    Series("hermes_lately", "gauge", {}, [(datetime.now(UTC).timestamp() - 1200, 1.0)]),
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    programs = prometheus.programs()
    require(programs, "Prometheus: apt-get install prometheus, or apt-get download")
    assert programs is not None
    with prometheus.running(tmp_path_factory.mktemp("prometheus"), programs, PAST) as url:
        yield url


async def test_each_figure_over_its_stretch_of_time(url: str) -> None:
    server = Prometheus(url)
    before = (await server.vitals([ADA], since=BEGIN, until=BEGIN + HOUR))[ADA]
    after = (await server.vitals([ADA], since=BEGIN + HOUR, until=BEGIN + 2 * HOUR))[ADA]
    assert before.source is Source.PROMETHEUS
    assert after.figures == pytest.approx(
        {
            Vital.GATEWAY_ERRORS: 12,
            Vital.RESTARTS: 2,
            Vital.TURN_LATENCY: 1.5,
            Vital.MEMORY: 300,
            Vital.QUEUE_AGE: 90,
        }
    )
    assert before.figures[Vital.TURN_LATENCY] == 0.5
    assert (before.figures[Vital.MEMORY], before.figures[Vital.QUEUE_AGE]) == (100, 0)


async def test_what_it_has_nothing_of_is_absent_and_not_nought(url: str) -> None:
    vitals = await Prometheus(url).vitals([BOB, NOBODY], since=BEGIN, until=BEGIN + HOUR)
    assert set(vitals[BOB].figures) == {Vital.GATEWAY_ERRORS, Vital.TURN_LATENCY}
    assert "hermes_queue_age_seconds" in vitals[BOB].missing[Vital.QUEUE_AGE]
    assert vitals[NOBODY].figures == {}
    assert set(vitals[NOBODY].missing) == set(Vital)


async def test_a_stretch_before_all_data_says_nothing(url: str) -> None:
    vitals = await Prometheus(url).vitals([ADA], since=BEGIN - 3 * HOUR, until=BEGIN - 2 * HOUR)
    assert vitals[ADA].figures == {}


async def test_hundreds_are_asked_about_at_once(url: str) -> None:
    many = [InstanceId(f"i-{number}") for number in range(450)]
    vitals = await Prometheus(url).vitals([*many, ADA], since=BEGIN, until=BEGIN + HOUR)
    assert set(vitals) == {*many, ADA}
    assert vitals[ADA].figures[Vital.MEMORY] == 100


async def test_a_gate_may_stand_on_a_metric_that_was_there_within_the_hour(url: str) -> None:
    await Prometheus(url).require("hermes_lately")
    with pytest.raises(RefusedError, match="has no metric"):
        await Prometheus(url).require("hermes_turn_seconds")


@pytest.mark.parametrize("metric", ["hermes_no_such_metric", "not a name", ""])
async def test_a_gate_on_a_metric_that_does_not_exist_is_refused(url: str, metric: str) -> None:
    with pytest.raises(RefusedError, match="has no metric"):
        await Prometheus(url).require(metric)


async def test_a_figure_that_it_has_not_lately_taken_is_no_ground_for_a_gate(url: str) -> None:
    with pytest.raises(RefusedError, match="no metric hermes_gateway_memory_bytes"):
        await Prometheus(url).require_vital(Vital.MEMORY)
    asked_otherwise = {Vital.MEMORY: Query("hermes_lately", "hermes_lately")}
    await Prometheus(url, asked_otherwise).require_vital(Vital.MEMORY)
    await Prometheus(url, asked_otherwise).require_vital(Vital.RESTARTS)


async def test_a_server_that_is_gone_or_says_nothing_is_no_good_figure() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        hanging = Prometheus(f"http://127.0.0.1:{silent.getsockname()[1]}", timeout_s=1)
        with pytest.raises(UnavailableError, match="no answer"):
            await hanging.vitals([ADA], since=BEGIN, until=BEGIN + HOUR)
    with pytest.raises(UnavailableError, match="no answer"):
        await hanging.vitals([ADA], since=BEGIN, until=BEGIN + HOUR)


def test_a_bad_query_is_told(url: str) -> None:
    with pytest.raises(UnavailableError, match="parse error"):
        Prometheus(url)._asked("sum(", {})
