"""Heartbeats are read from what users' machines wrote, and nothing that they write makes one of the future."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from hermesops.automation.monitor.metrics.heartbeats import Heartbeat, parse
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.ids import InstanceId
from tests.support.suite.cases import each_case

NOW = 1_800_000_000.0


def sample(value: object, *, instance: object = "ada", what: str = "written") -> dict[str, Any]:
    return {"metric": {"instance_id": instance, "what": what}, "value": [NOW, value]}


def test_both_times_of_an_instance_are_read() -> None:
    beats = parse([sample(f"{NOW - 40}"), sample(f"{NOW - 10}", what="sampled")], now_s=NOW)
    assert beats == {"ada": Heartbeat(NOW - 40, NOW - 10)}
    assert beats[InstanceId("ada")].last == NOW - 10
    assert Heartbeat().last is None


@each_case("value", ["NaN", "+Inf", "-Inf", "-5", "0", f"{NOW + 6}", "1e300", "", None, [], {}, "x" * 99])
def test_a_time_that_cannot_be_is_none(value: object) -> None:
    assert parse([sample(value)], now_s=NOW) == {}
    assert parse([sample(value), sample(f"{NOW - 99}")], now_s=NOW) == {"ada": Heartbeat(NOW - 99)}


def test_one_slightly_ahead_is_of_now() -> None:
    assert parse([sample(f"{NOW + 4}")], now_s=NOW) == {"ada": Heartbeat(NOW)}


def test_of_several_the_newest_counts() -> None:
    assert parse([sample(f"{NOW - age}") for age in (50, 20, 80)], now_s=NOW) == {"ada": Heartbeat(NOW - 20)}


@each_case(
    "samples",
    [[None], ["text"], [1], [{}], [{"metric": {}}], [{"metric": None, "value": [1, "1"]}], [sample("1", instance=7)]],
)
def test_what_is_no_sample_is_passed_over(samples: list[Any]) -> None:
    assert parse([*samples, sample(f"{NOW}")], now_s=NOW) == {"ada": Heartbeat(NOW)}


json = st.recursive(
    st.one_of(st.none(), st.booleans(), st.floats(), st.text(max_size=5), st.integers()),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=8), inner, max_size=3)),
    max_leaves=8,
)


@given(st.lists(st.one_of(json, st.builds(sample, json, instance=json)), max_size=5))
def test_no_answer_makes_a_heartbeat_of_the_future(samples: list[Any]) -> None:
    for beat in parse(samples, now_s=NOW).values():
        assert beat.last is not None
        assert 0 < beat.last <= NOW


def test_what_hermes_node_says_of_its_gateway_comes_with_its_heartbeat() -> None:
    documents = [
        {"metric": {"instance_id": "ada", "what": "gateway", "status": status}, "value": [NOW, "1"]}
        for status in ("ok", "silent", "splendid")
    ]
    assert parse([sample(f"{NOW - 20}"), *documents[:1]], now_s=NOW)[InstanceId("ada")].gateway is GatewayHealth.OK
    assert parse([*documents, sample(f"{NOW - 20}")], now_s=NOW)[InstanceId("ada")].gateway is GatewayHealth.SILENT, (
        "the worst counts"
    )
    assert parse([sample(f"{NOW - 20}"), *documents[2:]], now_s=NOW)[InstanceId("ada")].gateway is None, (
        "a word that nobody knows"
    )
    assert parse(documents, now_s=NOW) == {}, "no heartbeat, no word"
