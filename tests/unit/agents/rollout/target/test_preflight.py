"""A silent target is out of contact after a while; where nobody answers at all, whoever asks may be at fault."""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, cast

import pytest

from hermesops.agents.rollout.steps.observation import PreflightAnswers
from hermesops.agents.rollout.target import preflight
from hermesops.agents.rollout.target.preflight import Preflight
from hermesops.base.waiting import Pending, pause, until
from hermesops.errors import UnavailableError
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import ReleaseStatus, Rollout, Target
from tests.support.rollouts.rows import ROLLOUT, target_of
from tests.support.suite.cases import each_case

if TYPE_CHECKING:
    from hermesops.agents.rollout.ports import Machines

ADA, BOB = InstanceId("ada"), InstanceId("bob")


@dataclass
class Fleet:
    """Agents that answer from a second on, and a clock that turns with each pause."""

    answers_from_s: dict[InstanceId, float]
    problem: str = ""
    seconds: float = 0.0
    begin: datetime = field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))

    def now(self) -> datetime:
        return self.begin + timedelta(seconds=self.seconds)

    async def pause(self, seconds: float) -> None:
        self.seconds += seconds / len(self.answers_from_s)
        await pause(0)

    async def observe(self, instance_id: InstanceId) -> ReleaseStatus:
        if self.seconds < self.answers_from_s[instance_id]:
            raise UnavailableError("it does not answer")
        return ReleaseStatus("old")

    async def observe_agent(self, _target: Target) -> str:
        return self.problem


async def unwell(fleet: Fleet, rollout: Rollout) -> set[InstanceId]:
    asking = Preflight(cast("Machines", fleet), fleet.now)
    targets = [target_of(instance_id, number) for number, instance_id in enumerate(fleet.answers_from_s)]

    async def ask() -> PreflightAnswers | Pending[PreflightAnswers]:
        answers = await asking.ask(rollout, targets)
        return Pending("not yet") if answers.unanswered else answers

    return set((await until(ask, what="all answers", timeout_s=30, every_s=0)).unwell)


@each_case(
    ("answers_from_s", "is_emergency", "lost"),
    [
        ({ADA: 0, BOB: 60}, False, {BOB}),
        ({ADA: 200, BOB: 210}, False, set()),
        ({ADA: 200, BOB: 9999}, False, {BOB}),
        ({ADA: 9999, BOB: 9999}, False, {ADA, BOB}),
        ({ADA: 200, BOB: 200}, True, {ADA, BOB}),
        ({ADA: 200}, False, {ADA}),
    ],
)
async def test_silence_of_all_is_waited_for(
    answers_from_s: dict[InstanceId, float],
    is_emergency: bool,  # noqa: FBT001 - a case
    lost: set[InstanceId],
) -> None:
    fleet = Fleet(answers_from_s)
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(preflight, "pause", fleet.pause)
        spec = replace(ROLLOUT.spec, emergency="it is broken" if is_emergency else "")
        assert await unwell(fleet, replace(ROLLOUT, spec=spec)) == lost


async def test_agents_that_answer_and_are_unwell_are_not_silent() -> None:
    fleet = Fleet({ADA: 0, BOB: 0}, problem="it takes no turns")
    with pytest.MonkeyPatch.context() as patches:
        patches.setattr(preflight, "pause", fleet.pause)
        assert await unwell(fleet, ROLLOUT) == {ADA, BOB}
    assert fleet.seconds < 2 * ROLLOUT.spec.unreachable_after_s
