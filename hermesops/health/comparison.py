"""One instance before and after a change, or at the same two times where nothing was changed. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Vital, Vitals


@dataclass(frozen=True)
class VitalsPair:
    """What was seen of one instance.

    Attributes:
        before: ``None`` where nobody looked, or nobody got an answer.
        after: The same.
    """

    before: Vitals | None
    after: Vitals | None


def pairs(vital: Vital, seen: Mapping[InstanceId, VitalsPair]) -> dict[InstanceId, tuple[float, float]]:
    """One figure of each, before and after; who lacks either is not in it."""
    found = {whose: (_figure(vital, each.before), _figure(vital, each.after)) for whose, each in seen.items()}
    return {
        whose: (before, after) for whose, (before, after) in found.items() if before is not None and after is not None
    }


def _figure(vital: Vital, vitals: Vitals | None) -> float | None:
    return None if vitals is None else vitals.figures.get(vital)
