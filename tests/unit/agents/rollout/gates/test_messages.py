"""The messages gate: agents that answer nothing halt a rollout, and neither chance nor a few users do."""

from collections.abc import Mapping
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.rollout.gates.judgement import evidence_of, judge
from hermesops.agents.rollout.gates.messages import chance_of, weigh_messages
from hermesops.agents.rollout.ports import HealthObservation, MessageComparison
from hermesops.agents.rollout.records.events import Event, Recorded, StateChanged
from hermesops.agents.rollout.reports.explain import explain
from hermesops.agents.rollout.reports.replay import replay
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.exchange import Exchange
from hermesops.model.rollout.records import GateResult, RolloutState
from hermesops.model.rollout.spec import Gates, MessageGate
from tests.support.rollouts.world import NEW, World, fleet
from tests.support.suite.cases import each_case

GATE = MessageGate()
MUTE, ANSWERS, NONE = Exchange(2, 0), Exchange(9, 1), Exchange(0, 0)


def compared(canaries: str, controls: str) -> MessageComparison:
    """Agents by a letter each: ``m`` is mute, ``a`` answers, ``n`` had no message."""
    return MessageComparison(_exchanges(canaries), _exchanges(controls))


def _exchanges(letters: str) -> Mapping[InstanceId, Exchange]:
    of_letter = {"m": MUTE, "a": ANSWERS, "n": NONE}
    return {InstanceId(f"i{at}"): of_letter[letter] for at, letter in enumerate(letters)}


@each_case(
    ("canaries", "controls", "result", "why"),
    [
        ("", "aaaa", GateResult.NOT_EXERCISED, "no changed agent had a message yet"),
        ("nnn", "aaaa", GateResult.NOT_EXERCISED, "no changed agent had a message yet"),
        ("m", "a" * 50, GateResult.INCONCLUSIVE, "1 of 1 changed agent with messages answered none (needs 3)"),
        ("mm", "a" * 50, GateResult.INCONCLUSIVE, "2 of 2 changed agents with messages answered none (needs 3)"),
        (
            "mmm",
            "nnn",
            GateResult.INCONCLUSIVE,
            "3 of 3 changed agents with messages answered none; no unchanged agent had messages",
        ),
        ("mma", "a" * 9, GateResult.PASS, "2 of 3 changed agents with messages answered none, 0 of 9 unchanged"),
        ("mmm", "a" * 9, GateResult.FAIL, "3 of 3 changed agents with messages answered none, 0 of 9 unchanged"),
        (
            "mmm",
            "aaaaam",
            GateResult.INCONCLUSIVE,
            "no verdict yet: 3 of 3 changed agents with messages answered none, 1 of 6 unchanged; it may be chance",
        ),
        (
            "m" * 9,
            "m" * 9,
            GateResult.INCONCLUSIVE,
            "no verdict yet: 9 of 9 changed agents with messages answered none, 9 of 9 unchanged; it may be chance",
        ),
    ],
)
def test_verdicts(canaries: str, controls: str, result: GateResult, why: str) -> None:
    answer = weigh_messages(compared(canaries, controls), GATE)
    assert (answer.result, answer.why) == (result, why)


def test_nothing_observed_and_a_gate_that_is_off_halt_nothing() -> None:
    assert weigh_messages(None, GATE).result is GateResult.NOT_EXERCISED
    assert weigh_messages(compared("mmmm", "a" * 20), MessageGate(alpha=0)).result is GateResult.PASS


@given(st.lists(st.booleans(), min_size=2, max_size=9), st.integers(1, 8))
def test_the_chance_is_that_of_all_ways_to_draw(mute: list[bool], agents: int) -> None:
    agents = min(agents, len(mute) - 1)
    some = sum(mute[:agents])
    draws = [sum(each) for each in combinations(mute, agents)]
    expected = sum(each >= some for each in draws) / len(draws)
    assert chance_of(some, agents, sum(mute[agents:]), len(mute) - agents) == pytest.approx(expected)


def test_good_releases_are_seldom_halted_whatever_share_of_agents_is_at_a_long_turn() -> None:
    halted = {rate: sum(_is_halted(seed, rate) for seed in range(400)) for rate in (0.02, 0.1, 0.3)}
    assert max(halted.values()) <= 6, halted


def _is_halted(seed: int, rate: float) -> bool:
    """A good release on ten agents and then fifty; each user writes at some moment, and it is judged at each."""
    draw = Random(seed)  # noqa: S311 - a simulation
    letters = ["m" if draw.random() < rate else "a" for _ in range(200)]
    for stage in (10, 50):
        canaries, controls = letters[:stage], letters[stage:]
        for heard in (0.2, 0.4, 0.6, 0.8, 1.0):
            some = [letter if draw.random() < heard else "n" for letter in (*canaries, *controls)]
            answer = weigh_messages(compared("".join(some[:stage]), "".join(some[stage:])), GATE)
            if answer.result is GateResult.FAIL:
                return True
    return False


def test_a_release_that_takes_messages_and_answers_none_is_halted() -> None:
    world = World(fleet(200))
    ids = [target.id for target in world.placed.values()]
    world.messages = MessageComparison(dict.fromkeys(ids, MUTE), dict.fromkeys(ids, ANSWERS))
    ended = world.run()
    assert ended.startswith("halted: 3 of 3 changed agents with messages answered none, 0 of 197 unchanged"), ended
    assert sum(machine.current == NEW for machine in world.machines.values()) == 0, "all went back"
    assert sum(machine.begun for machine in world.machines.values()) <= 7
    halt = next(event for event in world.events if _is_halt(event))
    assert any("messages: fail" in line for line in explain(halt).evidence)
    again = replay(world.events, tuple(world.placed.values()), Gates(messages=MessageGate(alpha=0)))
    assert not again.halted
    assert replay(world.events, tuple(world.placed.values()), Gates()).halted


def _is_halt(recorded: Recorded[Event]) -> bool:
    return isinstance(recorded.event, StateChanged) and recorded.event.after is RolloutState.HALTED


def test_a_good_release_with_few_messages_is_not_held() -> None:
    world = World(fleet(40))
    first, second = world.nth(0).id, world.nth(1).id
    world.messages = MessageComparison({first: MUTE, second: MUTE}, {world.nth(39).id: ANSWERS})
    judgement = judge(world.rollout, [], HealthObservation(messages=world.messages), at_end=False)
    assert judgement.messages.result is GateResult.INCONCLUSIVE
    assert evidence_of(judgement)["messages"]
    assert world.run() == f"done: 40 of 40 agents on {NEW}"
