"""A halted rollout in a registry, with any text in the place of those of machines and people."""

from dataclasses import replace

from hermesops.agents.rollout.records.events import (
    BatchEnded,
    GateAnswered,
    Recorded,
    RolloutStarted,
    StateChanged,
    TargetOutcome,
    WaitBegun,
    to_row,
)
from hermesops.model.rollout.records import GateResult, RolloutState, RolloutTarget, TargetState
from hermesops.model.rollout.release import ReleaseId
from hermesops.store.registry import Registry
from tests.support.rollouts.rows import AT, ROLLOUT, target_of


def with_halted_rollout(registry: Registry, text: str) -> None:
    """Write a rollout of two instances in which every text of machines and people is this."""
    ids = [row.id for row in registry.instances.list()[:2]]
    failed = RolloutTarget(
        replace(target_of(ids[0]).facts, user=text, release_before="<i>0</i>"), 0, 0, 0, TargetState.FAILED, text
    )
    halted = replace(ROLLOUT, release=ReleaseId("<b>1</b>"), state=RolloutState.HALTED, reason=text, who=text)
    registry.rollouts.add(halted, [failed, target_of(ids[1], 1, stage=1)], to_row(Recorded(AT, RolloutStarted(text))))
    verdict = {"failures": {"result": text, "why": text}, "targets": {text: text}}
    for event in (
        StateChanged(RolloutState.RUNNING, RolloutState.HALTED, text, text, text),
        BatchEnded((TargetOutcome(ids[0], 0, 0, TargetState.FAILED, text),)),
        GateAnswered(text, GateResult.FAIL, 0, text, text),
        WaitBegun(text),
    ):
        registry.rollout_events.add(halted.id, to_row(Recorded(AT, event, verdict)))
