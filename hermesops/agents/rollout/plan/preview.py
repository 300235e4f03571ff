"""Preview of a rollout and of the power of its gates, from the batches that would run. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hermesops.agents.rollout.gates.power import odds, seen_with, worst_failed
from hermesops.agents.rollout.plan.batches import batches_of, shape_of, stratum
from hermesops.agents.rollout.plan.specs import blast_radius
from hermesops.model.rollout.records import RolloutTarget, Target
from hermesops.model.rollout.release import ReleaseId
from hermesops.model.rollout.spec import Spec

ATTEMPT_S = 20.0
"""Usual seconds for one machine: a start of the agent, its trial and its checks."""

FAULTS = (0.05, 0.10, 0.20, 0.30, 1.0)
"""Shares of users that a fault may affect, for which the gate's power is stated."""

_SEEN_RATE, _SEEN_POWER = 0.10, 0.90


@dataclass(frozen=True)
class StageAhead:
    """One stage.

    Attributes:
        number: From 1.
        after: How many have the release at its end.
        strata: How many of the strata of all targets have been reached by then; ``of`` so many.
        compares: Whether there are canaries and controls enough at its end for health to be compared.
        seconds: How long it takes if no target is busy.
    """

    number: int
    batches: tuple[int, ...]
    after: int
    strata: int
    of: int
    blast_radius: float
    two_people: bool
    compares: bool
    seconds: float


@dataclass(frozen=True)
class Power:
    """The reaction of the failure gate to a fault.

    Attributes:
        rate: Share of users that it affects.
        halted: Probability of a halt at all; ``first_stage`` within the first stage.
        touched: Mean number of targets touched; ``failed`` likewise failed.
    """

    rate: float
    halted: float
    first_stage: float
    touched: float
    failed: float


@dataclass(frozen=True)
class RolloutPreview:
    """A rollout that has not started.

    Attributes:
        false_halt: Probability that unrelated failures halt a good release.
        worst_failed: How many targets fail if the release breaks every one.
        seen_machines: So many machines show a fault in 10 % of users with a probability of 90 %.
        seen_in: In which stage so many are touched; 0 when there are fewer.
    """

    release: ReleaseId
    targets: tuple[RolloutTarget, ...]
    stages: tuple[StageAhead, ...]
    at_once: int
    powers: tuple[Power, ...]
    false_halt: float
    base_rate: float
    worst_failed: int
    seen_machines: int
    seen_in: int
    seconds: float

    @property
    def canaries(self) -> tuple[RolloutTarget, ...]:
        """The targets of the first stage."""
        return tuple(target for target in self.targets if target.stage == 0)


def preview(release: ReleaseId, targets: Sequence[Target], spec: Spec) -> RolloutPreview:
    """The preview of a release to targets."""
    placed = batches_of(release, targets, spec)
    sizes = shape_of(placed)
    gate = spec.gates.failures
    stages = _stages(placed, sizes, spec)
    needed = seen_with(_SEEN_RATE, _SEEN_POWER)
    return RolloutPreview(
        release,
        placed,
        stages,
        spec.at_once(len(placed)),
        tuple(_power(sizes, rate, spec) for rate in FAULTS),
        odds(sizes, gate.base_rate, gate).halted,
        gate.base_rate,
        worst_failed(sizes, gate),
        needed,
        next((stage.number for stage in stages if stage.after >= needed), 0),
        sum(stage.seconds for stage in stages),
    )


def _power(sizes: Sequence[Sequence[int]], rate: float, spec: Spec) -> Power:
    chances = odds(sizes, rate, spec.gates.failures)
    return Power(rate, chances.halted, chances.by_stage[0], chances.touched, chances.failed)


def _stages(placed: tuple[RolloutTarget, ...], sizes: Sequence[tuple[int, ...]], spec: Spec) -> tuple[StageAhead, ...]:
    everything = len({stratum(target.facts) for target in placed})
    reached: set[tuple[str, str, str, str]] = set()
    stages, after = list[StageAhead](), 0
    for batches in sizes:
        these = placed[after : after + sum(batches)]
        after += len(these)
        reached |= {stratum(target.facts) for target in these}
        score = blast_radius(placed[:after], spec)
        stages.append(
            StageAhead(
                these[0].stage + 1,
                batches,
                after,
                len(reached),
                everything,
                score,
                score > spec.two_person_above,
                spec.gates.health.can_compare(after, len(placed) - after),
                len(batches) * (ATTEMPT_S + spec.settle_s) + spec.soak_s,
            )
        )
    return tuple(stages)
