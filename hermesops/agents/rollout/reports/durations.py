"""Durations of earlier rollouts, as a measure for one that is under way. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from hermesops.model.rollout.records import Rollout, RolloutTarget


@dataclass(frozen=True)
class Durations:
    """Durations of earlier rollouts of the same action, in seconds; ``None`` where none has ended.

    Attributes:
        change_s: Median of one agent's change, from its begin to its confirmation.
        rollout_s: Duration of the last rollout that was done.
    """

    change_s: float | None = None
    rollout_s: float | None = None


def durations_of(done: Iterable[tuple[Rollout, Sequence[RolloutTarget]]]) -> Durations:
    """Durations of rollouts that are done.

    Args:
        done: Rollouts with their targets, the newest first.
    """
    rollouts = list(done)
    changes = [
        (target.progress.confirmed_at - target.touched_at).total_seconds()
        for _, targets in rollouts
        for target in targets
        if target.touched_at and target.progress.confirmed_at
    ]
    last = next((rollout for rollout, _ in rollouts), None)
    return Durations(
        median(changes) if changes else None,
        (last.updated_at - last.created_at).total_seconds() if last else None,
    )
