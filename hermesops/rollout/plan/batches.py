"""The course of a rollout: who gets the release in which batch of which stage, decided before it starts. Pure.

Each stage ramps up anew, 1, 2, 4 …, never above what may be unavailable at once: what goes wrong goes wrong for few.
"""

from collections.abc import Iterable, Iterator, Sequence
from math import ceil

from hermesops.model.release import ReleaseId
from hermesops.model.rollout import RolloutTarget, Target
from hermesops.model.rollout_spec import Spec
from hermesops.rollout.plan.order import fair_order

_ROUNDING = 1e-9
"""So that 5 % of 200 is 10, whatever floating point makes of it."""


def batches_of(release: ReleaseId, targets: Iterable[Target], spec: Spec) -> tuple[RolloutTarget, ...]:
    """Place every target; whoever joins later gets the release directly.

    Args:
        release: Salts the order.
        targets: The frozen set.
        spec: Stages and limits.
    """
    ordered = fair_order(targets, release)
    places = _places(shape(len(ordered), spec))
    return tuple(
        RolloutTarget(target, stage, batch, position)
        for position, (target, (stage, batch)) in enumerate(zip(ordered, places, strict=True))
    )


def shape(total: int, spec: Spec) -> tuple[tuple[int, ...], ...]:
    """Sizes of the batches of each stage; a stage that has nobody left to touch has none.

    Args:
        total: How many targets there are.
        spec: Stages and limits.
    """
    ends = [min(total, max(1, ceil(share * total - _ROUNDING))) for share in spec.stages]
    starts = [0, *ends[:-1]]
    return tuple(tuple(ramp(end - start, spec.at_once(total))) for start, end in zip(starts, ends, strict=True))


def ramp(total: int, most: int) -> Iterator[int]:
    """1, 2, 4 … up to ``most``, together ``total``."""
    size = 1
    while total > 0:
        batch = min(size, most, total)
        yield batch
        total -= batch
        size *= 2


def shape_of(targets: Sequence[RolloutTarget]) -> tuple[tuple[int, ...], ...]:
    """The sizes of a course that was made."""
    sizes: dict[int, dict[int, int]] = {}
    for target in targets:
        batches = sizes.setdefault(target.stage, {})
        batches[target.batch] = batches.get(target.batch, 0) + 1
    return tuple(tuple(sizes[stage][batch] for batch in sorted(sizes[stage])) for stage in sorted(sizes))


def _places(stages: Sequence[Sequence[int]]) -> Iterator[tuple[int, int]]:
    for stage, batches in enumerate(stages):
        for batch, size in enumerate(batches):
            yield from ((stage, batch),) * size
