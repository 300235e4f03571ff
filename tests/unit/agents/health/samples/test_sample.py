"""What several looks at one agent amount to."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from hermesops.agents.health.samples.sample import HealthSample, vitals_of
from hermesops.errors import UnavailableError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.vitals import TurnOutcome, Vital
from hermesops.model.ids import InstanceId
from tests.support.suite.cases import each_case

ADA = InstanceId("ada")
THEN = datetime(2027, 1, 15, 8, tzinfo=UTC)
WELL = HealthSample(
    at=THEN,
    since=THEN - timedelta(hours=1),
    release="r1",
    gateway=GatewayHealth.OK,
    restarts=0,
    errors=0,
    memory_bytes=100,
    queue_age_s=0.0,
    turn_s=0.5,
    turn_ok=True,
)


def later(minutes: float, **changes: object) -> HealthSample:
    return replace(WELL, at=THEN + timedelta(minutes=minutes), since=THEN, **changes)  # type: ignore[arg-type]


def test_what_a_node_prints_is_read_and_kept() -> None:
    assert HealthSample.from_json(WELL.to_json()) == WELL
    silent = replace(
        WELL, gateway=GatewayHealth.SILENT, errors=None, memory_bytes=None, queue_age_s=None, turn_s=None, turn_ok=False
    )
    assert HealthSample.from_json(silent.to_json()) == silent


@each_case("text", ["", "[]", "{}", '{"at": "x"}', WELL.to_json().replace('"ok"', '"odd"')])
def test_what_cannot_be_read(text: str) -> None:
    with pytest.raises(UnavailableError, match="cannot be parsed"):
        HealthSample.from_json(text)


def test_a_log_that_was_cut_counts_nothing() -> None:
    document = json.loads(WELL.to_json())
    document["errors"] = {"count": 7, "complete": False}
    assert HealthSample.from_json(json.dumps(document)).errors is None


def test_one_look_has_all_figures_of_an_agent_that_is_well() -> None:
    vitals = vitals_of(ADA, [WELL])
    assert vitals.figures == {
        Vital.GATEWAY_ERRORS: 0.0,
        Vital.RESTARTS: 0.0,
        Vital.TURN_LATENCY: 0.5,
        Vital.MEMORY: 100.0,
        Vital.QUEUE_AGE: 0.0,
    }
    assert (vitals.turn, vitals.missing) == (TurnOutcome.ANSWERED, {})
    assert (vitals.since, vitals.until) == (THEN - timedelta(hours=1), THEN)


def test_errors_are_a_rate_over_all_that_was_counted() -> None:
    samples = [replace(WELL, errors=1), later(30, errors=2)]
    assert vitals_of(ADA, samples).figures[Vital.GATEWAY_ERRORS] == 2.0, "3 in an hour and a half"


def test_restarts_are_counted_between_looks_and_over_a_start_by_hand() -> None:
    grown = [replace(WELL, restarts=5), later(30, restarts=6), later(60, restarts=1)]
    assert vitals_of(ADA, grown).figures[Vital.RESTARTS] == 2.0
    alone = vitals_of(ADA, [replace(WELL, restarts=5)])
    assert Vital.RESTARTS not in alone.figures
    assert "5 times" in alone.missing[Vital.RESTARTS]


def test_what_could_not_be_taken_is_missing_with_its_reason() -> None:
    bare = replace(WELL, since=None, errors=None, memory_bytes=None, queue_age_s=None, turn_s=None, turn_ok=False)
    vitals = vitals_of(ADA, [bare])
    assert vitals.figures == {Vital.RESTARTS: 0.0}
    assert set(vitals.missing) == set(Vital) - {Vital.RESTARTS}
    assert all(vitals.missing.values())


def test_one_look_without_a_queue_makes_its_age_unknown() -> None:
    assert Vital.QUEUE_AGE in vitals_of(ADA, [WELL, later(1, queue_age_s=None)]).missing


def test_one_failed_turn_is_not_hidden_by_others() -> None:
    failed = later(1, turn_s=9.0, turn_ok=False)
    vitals = vitals_of(ADA, [WELL, failed, later(2)])
    assert vitals.turn is TurnOutcome.FAILED
    assert vitals.figures[Vital.TURN_LATENCY] == 0.5, "a turn that failed says nothing about how long one takes"


def test_the_worst_sample_alone_is_nothing_that_lasts() -> None:
    once = later(1, turn_s=30.0, errors=9, memory_bytes=900, queue_age_s=1000.0)
    assert vitals_of(ADA, [once]).lasting == {Vital.RESTARTS: 0.0}, "one sample shows nothing that lasts"
    lasting = vitals_of(ADA, [once, later(2)]).lasting
    assert lasting == vitals_of(ADA, [later(2)]).figures
    twice = vitals_of(ADA, [once, later(2, turn_s=20.0, errors=4, memory_bytes=700, queue_age_s=950.0)]).lasting
    assert (twice[Vital.TURN_LATENCY], twice[Vital.MEMORY], twice[Vital.QUEUE_AGE]) == (20.0, 700.0, 950.0)
    assert twice[Vital.GATEWAY_ERRORS] == 4 * 30, "of the two minutes that it was counted"


@pytest.mark.parametrize("gateway", [GatewayHealth.SILENT, GatewayHealth.REFUSED])
def test_a_gateway_that_does_not_answer_has_failed(gateway: GatewayHealth) -> None:
    assert vitals_of(ADA, [replace(WELL, gateway=gateway, turn_s=None, turn_ok=False)]).turn is TurnOutcome.FAILED


def test_nobody_looked() -> None:
    with pytest.raises(ValueError, match="no sample"):
        vitals_of(ADA, [])


def test_memory_counts_only_while_the_gateway_answers() -> None:
    starting = later(0, gateway=GatewayHealth.SILENT, memory_bytes=20)
    assert vitals_of(ADA, [starting, starting, later(1)]).figures[Vital.MEMORY] == 100.0
    assert vitals_of(ADA, [starting]).missing[Vital.MEMORY] == "the gateway does not answer"
