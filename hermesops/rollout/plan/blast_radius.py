"""How much a step could break at worst, in one number: above a limit, two people must want it. Pure."""

from collections.abc import Sequence
from math import log2

from hermesops.model.rollout import RolloutTarget
from hermesops.model.rollout_spec import Spec

_PER_DOUBLING = 6.0
"""Points for each doubling of the users that are touched: 200 of them are 46, a thousand are 60."""

_PROTECTED = 15.0
_UNGUARDED = 20.0
_EMERGENCY = 10.0


def blast_radius(touched: Sequence[RolloutTarget], spec: Spec) -> float:
    """The score of touching these.

    Args:
        touched: Who runs the release once the step is done.
        spec: Gates that are switched off, and hours that do not count, make it worse.
    """
    if not touched:
        return 0.0
    score = _PER_DOUBLING * log2(len(touched))
    score += _PROTECTED * any(target.facts.protected for target in touched)
    score += _UNGUARDED * (not spec.gates.health.vitals and not spec.gates.probe.share)
    score += _EMERGENCY * bool(spec.emergency)
    return round(score, 1)
