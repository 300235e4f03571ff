"""Rollouts to one, two or three agents: one bad sample of a good release halts nothing, a bad release is halted."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pytest

from hermesops.agents.health.canary_watch import CanaryWatch
from hermesops.agents.health.samples.sample import HealthSample, Question, figures_of, lasting_of
from hermesops.agents.health.samples.sampler import Sampler
from hermesops.agents.rollout.ports import Comparison, HealthObservation
from hermesops.base.narration import counted
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.vitals import ChangeSpan, Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import Target, TargetState
from hermesops.model.rollout.spec import DrillPolicy, Spec
from tests.support.rollouts.world import NEW, OLD, World, fleet
from tests.unit.agents.health.test_canary_watch import Samples

Spoil = Callable[[HealthSample], HealthSample]

SPOILS: Mapping[str, Spoil] = {
    "slow turn": lambda sample: replace(sample, turn_s=25.0) if sample.turn_s else sample,
    "failed turn": lambda sample: replace(sample, turn_ok=False) if sample.turn_s else sample,
    "error": lambda sample: replace(sample, errors=1),
    "memory": lambda sample: replace(sample, memory_bytes=900),
    "queue": lambda sample: replace(sample, queue_age_s=1000.0),
    "silent": lambda sample: replace(sample, gateway=GatewayHealth.SILENT, turn_s=None),
}
"""Each way in which a sample is bad enough to fail an agent."""


class Nodes(Sampler):
    """The nodes of a world: the agents are well, but for samples on the new release that are spoiled.

    Attributes:
        spoiled: How many samples of each agent are spoiled.
    """

    def __init__(self, world: "Watched", spoil: Spoil, spoiled: int) -> None:
        self._world, self._spoil, self._left = world, spoil, dict.fromkeys(world.machines, spoiled)

    def is_asking(self, instance_id: InstanceId) -> bool:  # noqa: ARG002 - each answers at once
        return False

    async def stop(self) -> None:
        """Nothing is under way."""

    async def sample(self, questions: Mapping[InstanceId, Question]) -> dict[InstanceId, HealthSample | None]:
        return {each: self._sample(each, question) for each, question in questions.items()}

    def _sample(self, instance_id: InstanceId, question: Question) -> HealthSample:
        turn_s = 1.0 if question.turn_s else None
        now = self._world.clock.now()
        well = HealthSample(now, question.since, "r", GatewayHealth.OK, 0, 0, 100, 0.0, turn_s, turn_ok=bool(turn_s))
        bad = self._spoil(well)
        if self._world.machines[instance_id].current != NEW or bad == well or not self._left[instance_id]:
            return well
        self._left[instance_id] -= 1
        return bad


class Watched(World):
    """A world in memory, observed as nodes are: by samples that are kept."""

    def __init__(self, size: int, spoil: Spoil, *, spoiled: int) -> None:
        super().__init__(fleet(size), Spec(drill=DrillPolicy.NO))
        nodes = Nodes(self, spoil, spoiled)
        self.watching = CanaryWatch(nodes, Samples(), self.clock.now)

    async def watch(
        self, changed: Mapping[InstanceId, ChangeSpan], untouched: Sequence[InstanceId], vitals: Sequence[str]
    ) -> HealthObservation:
        watched = await self.watching.watch(changed, untouched)
        pairs, controls = watched.changed, watched.controls
        compared = (
            Comparison(vital, figures_of(vital, pairs), figures_of(vital, controls), lasting_of(vital, pairs))
            for vital in map(Vital, vitals)
        )
        return HealthObservation(watched.liveness_of, tuple(compared))


class Hesitant(World):
    """Agents that answer in advance; when it is their turn, some answers come too late.

    Attributes:
        answers: The answers of each agent so far.
    """

    def __init__(self, size: int, *, bad_answers: int, hesitant: int | None = None) -> None:
        targets = fleet(size)
        super().__init__(targets, Spec(drill=DrillPolicy.NO))
        self.answers = Counter[InstanceId]()
        self._bad_answers = bad_answers
        self._hesitant = {target.instance_id for target in targets[:hesitant]}

    async def observe_agent(self, target: Target) -> str:
        self.answers[target.instance_id] += 1
        is_bad = target.instance_id in self._hesitant and (
            1 < self.answers[target.instance_id] <= 1 + self._bad_answers
        )
        return "its gateway did not answer correctly within 8 s" if is_bad else ""


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_one_bad_sample_of_each_agent_halts_no_good_release(spoil: Spoil, size: int) -> None:
    world = Watched(size, spoil, spoiled=1)
    assert world.run() == f"done: {size} of {counted(size, 'agent')} on {NEW}"


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_a_bad_release_is_halted_at_the_first_of_three_agents(spoil: Spoil) -> None:
    world = Watched(3, spoil, spoiled=10**6)
    assert world.run().startswith("halted: every agent of this stage failed (1 of 1)")
    assert (world.begun(), world.on(OLD)) == (1, 3)
    assert world.clock.seconds < 90, "long before the soak of 600 s is over"


@pytest.mark.parametrize("size", [1, 2, 3])
def test_one_slow_answer_before_the_change_halts_nothing(size: int) -> None:
    world = Hesitant(size, bad_answers=1)
    assert world.run() == f"done: {size} of {counted(size, 'agent')} on {NEW}"


@pytest.mark.parametrize("size", [2, 3])
def test_one_agent_that_answers_badly_holds_up_no_other(size: int) -> None:
    world = Hesitant(size, bad_answers=10**6, hesitant=1)
    assert world.run().startswith("done: ")
    assert (world.on(NEW), world.on(OLD)) == (size - 1, 1)
    assert [world.nth(at).state for at in range(size)].count(TargetState.OUTDATED) == 1


def test_two_agents_of_four_that_answer_badly_halt_the_rollout() -> None:
    world = Hesitant(4, bad_answers=10**6, hesitant=2)
    assert world.run().startswith("halted: 2 of 4 agents did not answer before their change")


def test_an_agent_that_goes_on_answering_badly_is_left_unchanged() -> None:
    world = Hesitant(1, bad_answers=10**6)
    assert world.run().startswith("halted: 1 of 1 agents did not answer before their change")
    assert (world.nth(0).state, world.begun()) == (TargetState.UNREACHABLE, 0)
