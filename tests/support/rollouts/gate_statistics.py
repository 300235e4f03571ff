"""Rollouts by the hundred, each drawn from a seed: what the gates did, counted, with intervals."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import exp, sqrt
from random import Random

from hermesops.agents.rollout.gates.failure import Tally, weigh
from hermesops.agents.rollout.gates.health import compare
from hermesops.agents.rollout.gates.judgement import share_of_alpha
from hermesops.agents.rollout.plan.batches import shape
from hermesops.agents.rollout.ports import Comparison
from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import FailureGate, HealthGate, Spec
from tests.support.rollouts.world import NEW, QUICK, World, fleet

USERS = 200
FAILURES_ONLY = replace(QUICK, gates=replace(QUICK.gates, health=HealthGate(vitals=())))
"""So that a run is about the failure gate alone, and quick."""


@dataclass(frozen=True)
class Ended:
    """One rollout.

    Attributes:
        touched: Machines told to change; ``failed`` of them broke.
        on_new: How many run the release in the end.
    """

    halted: bool
    touched: int
    failed: int
    on_new: int


@dataclass(frozen=True)
class Share:
    """How many of how many, with the interval of Wilson at 95 %."""

    hits: int
    of: int

    @property
    def rate(self) -> float:
        return self.hits / self.of

    @property
    def interval(self) -> tuple[float, float]:
        z, n, p = 1.96, self.of, self.rate
        middle, half = p + z * z / (2 * n), z * sqrt(p * (1 - p) / n + z * z / (4 * n * n))
        return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))

    def __str__(self) -> str:
        low, high = self.interval
        return f"{self.rate:.2%} ({self.hits} of {self.of}; {low:.2%} to {high:.2%})"


def run_whole(share: float, seed: int) -> Ended:
    """A rollout by the real runner, to machines of which each breaks with a probability."""
    draw, world = Random(seed), World(fleet(USERS), FAILURES_ONLY)  # noqa: S311 - a simulation
    for machine in world.machines.values():
        machine.breaks = draw.random() < share
    halted = world.run().startswith("halted")
    failed = sum(machine.begun > 0 and machine.breaks for machine in world.machines.values())
    return Ended(halted, world.begun(), failed, world.on(NEW))


def run_gate(rate: float, seed: int, gate: FailureGate, users: int = USERS) -> Ended:
    """The failure gate alone, at the end of each batch of the usual course."""
    draw = Random(seed)  # noqa: S311 - a simulation
    everybody = Tally()
    for batches in shape(users, Spec()):
        stage = Tally()
        for number, size in enumerate(batches, 1):
            batch = Tally(size, sum(draw.random() < rate for _ in range(size)))
            everybody, stage = everybody + batch, stage + batch
            weighed = weigh(everybody, stage, gate, is_over=number == len(batches))
            if weighed.result is GateResult.FAIL:
                return Ended(True, everybody.touched, everybody.failed, 0)
    return Ended(False, everybody.touched, everybody.failed, everybody.touched - everybody.failed)


def run_health(seed: int, *, harm: float = 1.0, canaries: Sequence[int] = (10, 50, 64), weather: float = 0.0) -> int:
    """The health gate at the end of each stage, over all vitals.

    Machines differ by a factor of ten, each by itself varies by some 20 %, some of them are idle, and all share a
    weather that makes everything slower for a while.

    Args:
        seed: Of the draw.
        harm: The factor by which the release makes turns slower.
        canaries: How many are compared at the end of each stage.
        weather: How much the time of day makes everything slower, as a logarithm.

    Returns:
        The stage at whose end it fails, from 1; 0 when it does not.
    """
    draw, gate, spec = Random(seed), HealthGate(), Spec()  # noqa: S311 - a simulation
    alpha = share_of_alpha(gate, len(spec.stages), at_end=True)
    for stage, count in enumerate(canaries, 1):
        for vital in Vital:
            factor = harm if vital is Vital.TURN_LATENCY else 1.0
            comparison = Comparison(
                vital,
                _figures(draw, vital, count, factor, weather),
                _figures(draw, vital, 64 if stage < len(canaries) else 0, 1.0, weather),
            )
            if compare(comparison, alpha=alpha, floor=gate.floor).result is GateResult.FAIL:
                return stage
    return 0


def _figures(
    draw: Random, vital: Vital, count: int, factor: float, weather: float
) -> dict[InstanceId, tuple[float, float]]:
    figures: dict[InstanceId, tuple[float, float]] = {}
    for number in range(count):
        usual = exp(draw.gauss(0, 1.2))
        before, after = usual * exp(draw.gauss(0, 0.2)), usual * exp(draw.gauss(0, 0.2) + weather) * factor
        if vital in {Vital.GATEWAY_ERRORS, Vital.RESTARTS}:
            before, after = float(draw.random() < 0.1), float(draw.random() < 0.1 * exp(weather))
        figures[InstanceId(str(number))] = before, after
    return figures
