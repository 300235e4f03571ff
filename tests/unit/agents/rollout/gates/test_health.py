"""Canaries against controls: what the rank test says, and who alone is hurt."""

from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.rollout.gates.health import chance_of, compare, worse_than_controls
from hermesops.agents.rollout.ports import Comparison
from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult
from tests.support.rollouts.gate_statistics import run_health
from tests.support.suite.cases import each_case
from tests.support.suite.shard import shard


def figures(*pairs: tuple[float, float]) -> dict[InstanceId, tuple[float, float]]:
    return {InstanceId(str(number)): pair for number, pair in enumerate(pairs)}


@given(st.lists(st.integers(0, 5), min_size=1, max_size=4), st.lists(st.integers(0, 5), min_size=1, max_size=5))
def test_the_chance_is_the_share_of_all_ways_to_draw(ones: list[int], others: list[int]) -> None:
    pooled = [*ones, *others]

    def rank_sum(chosen: tuple[int, ...]) -> int:
        return sum(
            2 * sum(other < pooled[count] for other in pooled) + sum(other == pooled[count] for other in pooled) + 1
            for count in chosen
        )

    every = [rank_sum(chosen) for chosen in combinations(range(len(pooled)), len(ones))]
    observed = rank_sum(tuple(range(len(ones))))
    assert chance_of(ones, others) == pytest.approx(sum(each >= observed for each in every) / len(every))


def test_many_are_judged_like_few() -> None:
    ones, others = [float(number) for number in range(40, 100)], [float(number) for number in range(90)]
    assert chance_of(ones, others) < 0.001
    assert chance_of(others, ones) > 0.999
    assert chance_of([1.0] * 60, [1.0] * 60) == 1.0


def test_a_slow_evening_is_not_the_releases_fault() -> None:
    everybody = figures(*[(1.0 + number / 10, 3.0 + number * 0.3) for number in range(12)])
    compared = compare(Comparison(Vital.TURN_LATENCY, everybody, everybody), alpha=0.01, floor=5)
    assert compared.result is GateResult.PASS
    assert compared.worse == pytest.approx(1.0)
    assert worse_than_controls([Comparison(Vital.TURN_LATENCY, everybody, everybody)]) == {}


def test_turns_twice_as_slow_fail_with_the_figures() -> None:
    canaries, controls = (
        figures(*[(1.0, 2.0 + n / 100) for n in range(10)]),
        figures(*[(1.0, 1.0 + n / 100) for n in range(20)]),
    )
    compared = compare(Comparison(Vital.TURN_LATENCY, canaries, controls), alpha=0.01, floor=5)
    assert compared.result is GateResult.FAIL
    assert compared.worse == pytest.approx(1.9, abs=0.1)
    assert compared.why.startswith("turn latency is 1.8")


@each_case(
    ("canaries", "controls", "result"),
    [
        (0, 20, GateResult.NOT_EXERCISED),
        (4, 20, GateResult.INCONCLUSIVE),
        (20, 4, GateResult.INCONCLUSIVE),
        (5, 5, GateResult.INCONCLUSIVE),
        (5, 20, GateResult.PASS),
    ],
)
def test_too_little_data_is_no_pass(canaries: int, controls: int, result: GateResult) -> None:
    comparison = Comparison(Vital.RESTARTS, figures(*[(0.0, 0.0)] * canaries), figures(*[(0.0, 0.0)] * controls))
    assert compare(comparison, alpha=0.003, floor=5).result is result


def test_worse_but_not_surely_is_inconclusive() -> None:
    canaries = figures((0, 9), (0, 0), (0, 8), (0, 0), (0, 7), (0, 9), (0, 0))
    compared = compare(Comparison(Vital.GATEWAY_ERRORS, canaries, figures(*[(0.0, 0.0)] * 6)), alpha=1e-3, floor=5)
    assert compared.result is GateResult.INCONCLUSIVE


def test_one_that_got_critically_worse_is_named() -> None:
    canaries = figures((1.0, 1.1), (1.0, 9.0), (2.0, 2.2))
    controls = {InstanceId("c1"): (1.0, 1.0), InstanceId("c2"): (1.0, 1.2)}
    lasting = {InstanceId(str(number)): after for number, after in enumerate((1.1, 8.9, 2.2))}
    worse = worse_than_controls([Comparison(Vital.TURN_LATENCY, canaries, controls, lasting)])
    assert list(worse) == ["1"]
    assert "turn latency is 8.1" in worse[InstanceId("1")]
    one_control = {InstanceId("c1"): (1.0, 1.0)}
    assert worse_than_controls([Comparison(Vital.TURN_LATENCY, canaries, one_control, lasting)]) == {}


def test_nothing_is_concluded_for_one_from_a_single_sample() -> None:
    canaries, controls = figures((1.0, 9.0), (1.0, 9.0)), {InstanceId(f"c{number}"): (1.0, 1.0) for number in range(3)}
    lasting = {InstanceId("1"): 1.0}
    assert worse_than_controls([Comparison(Vital.TURN_LATENCY, canaries, controls, lasting)]) == {}


def test_one_that_stayed_as_it_was_is_not_hurt_because_others_got_better() -> None:
    canaries = figures((2.7, 2.0), (2.7, 11.0))
    controls = {InstanceId(f"c{number}"): (12.0, 2.0) for number in range(7)}
    lasting = {InstanceId("0"): 2.0, InstanceId("1"): 11.0}
    worse = worse_than_controls([Comparison(Vital.TURN_LATENCY, canaries, controls, lasting)])
    assert worse == {InstanceId("1"): "turn latency is 4.07 times what it was before (limit 4)"}


def test_noise_is_rarely_harm_and_harm_is_found() -> None:
    """A shard of the soak's thousands."""
    first = shard() % 10_000 * 100
    assert sum(run_health(first + seed, weather=0.7) > 0 for seed in range(100)) <= 15
    assert sum(run_health(first + seed, harm=2.5, weather=0.7) > 0 for seed in range(40)) >= 38
