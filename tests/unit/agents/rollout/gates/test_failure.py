"""The failure gate: what it says of counts, and that its computed odds are those of its own rules."""

from collections import defaultdict
from math import comb, log

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.rollout.gates.failure import Bounds, Tally, halts, weigh
from hermesops.agents.rollout.gates.power import odds, seen_with, worst_failed
from hermesops.agents.rollout.plan.batches import shape
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import FailureGate, Spec
from tests.support.rollouts.gate_statistics import Share, run_gate
from tests.support.suite.cases import each_case
from tests.support.suite.shard import shard

GATE = FailureGate()


@each_case(
    ("everybody", "stage", "result"),
    [
        (Tally(0, 0), Tally(0, 0), GateResult.NOT_EXERCISED),
        (Tally(1, 0), Tally(1, 0), GateResult.INCONCLUSIVE),
        (Tally(1, 1), Tally(1, 1), GateResult.INCONCLUSIVE),
        (Tally(3, 2), Tally(3, 2), GateResult.FAIL),
        (Tally(16, 2), Tally(9, 1), GateResult.FAIL),
        (Tally(17, 2), Tally(9, 1), GateResult.INCONCLUSIVE),
        (Tally(15, 0), Tally(15, 0), GateResult.PASS),
        (Tally(200, 4), Tally(150, 3), GateResult.PASS),
        (Tally(190, 6), Tally(8, 3), GateResult.FAIL),
    ],
)
def test_counts_get_their_verdict(everybody: Tally, stage: Tally, result: GateResult) -> None:
    weighed = weigh(everybody, stage, GATE)
    assert weighed.result is result, weighed.why


def test_its_words_tell_the_state_of_the_test() -> None:
    assert weigh(Tally(15, 0), Tally(15, 0), GATE).why == "0 of 15 failed; the release counts as good"
    assert weigh(Tally(3, 2), Tally(3, 2), GATE).why == "2 of 3 failed; a release this bad is stopped after 2"
    assert weigh(Tally(190, 6), Tally(8, 3), GATE).why.startswith(
        "3 of 8 failed in this stage; a release this bad is stopped after 3"
    )


def test_a_stage_that_is_lost_halts_however_small_it_is() -> None:
    assert weigh(Tally(1, 1), Tally(1, 1), GATE, is_over=True).result is GateResult.FAIL
    assert weigh(Tally(1, 0), Tally(1, 0), GATE, is_over=True).result is GateResult.INCONCLUSIVE
    assert weigh(Tally(0, 0), Tally(0, 0), GATE, is_over=True).result is GateResult.NOT_EXERCISED


def test_bounds_are_walds() -> None:
    bounds = Bounds.of(GATE)
    assert bounds.bad == pytest.approx(log(0.95 / 0.01))
    assert bounds.good == pytest.approx(log(0.05 / 0.99))
    assert bounds.ratio(Tally(10, 3)) == pytest.approx(3 * log(10) + 7 * log(0.8 / 0.98))


@given(
    st.lists(st.lists(st.integers(1, 9), min_size=1, max_size=6), min_size=1, max_size=4),
    st.sampled_from([0.02, 0.1, 0.3, 0.9]),
)
def test_odds_are_those_of_every_single_way(stages: list[list[int]], rate: float) -> None:
    """Compared with a count of all pairs of failures, without anything left out or merged."""
    bounds, ways = Bounds.of(GATE), {(0, 0): 1.0}
    touched, halted, mean = 0, 0.0, 0.0
    for batches in stages:
        merged: dict[tuple[int, int], float] = defaultdict(float)
        for (failed, _), chance in ways.items():
            merged[failed, 0] += chance
        ways, in_stage = dict(merged), 0
        for number, size in enumerate(batches, 1):
            touched, in_stage = touched + size, in_stage + size
            after: dict[tuple[int, int], float] = defaultdict(float)
            for (failed, of_stage), chance in ways.items():
                for more in range(size + 1):
                    likely = comb(size, more) * rate**more * (1 - rate) ** (size - more)
                    after[failed + more, of_stage + more] += chance * likely
            ways = {}
            for (failed, of_stage), chance in after.items():
                over = number == len(batches)
                if halts(Tally(touched, failed), Tally(in_stage, of_stage), GATE, bounds, is_over=over):
                    halted, mean = halted + chance, mean + chance * touched
                else:
                    ways[failed, of_stage] = chance
    chances = odds(stages, rate, GATE)
    assert chances.halted == pytest.approx(halted, abs=1e-5)  # what is too unlikely to be followed adds up
    assert chances.touched == pytest.approx(mean + (1 - halted) * touched, abs=1e-2)


def test_two_hundred_users_are_as_safe_as_is_promised() -> None:
    sizes = shape(200, Spec())
    assert odds(sizes, 0.02, GATE).halted <= 0.05
    third = odds(sizes, 0.30, GATE)
    assert third.halted >= 0.99
    assert third.touched <= 10
    assert worst_failed(sizes, GATE) == 3
    assert seen_with(0.10, 0.90) == 22


def test_computed_odds_are_what_happens() -> None:
    """A shard of the ten thousand; the interval is wide enough for one in a million."""
    first = shard() % 10_000 * 1000
    for rate in (0.02, 0.3):
        ended = [run_gate(rate, first + seed, GATE) for seed in range(1000)]
        share = Share(sum(each.halted for each in ended), len(ended))
        computed = odds(shape(200, Spec()), rate, GATE).halted
        assert abs(share.rate - computed) <= 5 * (computed * (1 - computed) / share.of) ** 0.5 + 1e-9
