"""What a judge compares: instances with a new release, and at the same time others without, each with itself before.

Pure: it takes figures apart and judges nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Vital, Vitals


@dataclass(frozen=True)
class Seen:
    """One instance before and after, or at the same two times where nothing was changed.

    Attributes:
        before: ``None`` where nobody looked, or nobody got an answer.
        after: The same.
    """

    before: Vitals | None
    after: Vitals | None


@dataclass(frozen=True)
class Compared:
    """One figure of many instances; ``before`` and ``after`` have the same order, and so do the controls'.

    Attributes:
        before: Of those with the new release.
        after: Of the same.
        control_before: Of those that were left alone.
        control_after: Of the same.
        missing: Of those with the new release, who could not be compared, and why.
    """

    vital: Vital
    before: tuple[float, ...]
    after: tuple[float, ...]
    control_before: tuple[float, ...]
    control_after: tuple[float, ...]
    missing: Mapping[InstanceId, str] = field(default_factory=dict)


def compared(vital: Vital, changed: Mapping[InstanceId, Seen], controls: Mapping[InstanceId, Seen]) -> Compared:
    """Take one figure out of what was seen.

    Args:
        vital: Which.
        changed: Instances with the new release.
        controls: Instances that were left alone.
    """
    pairs, missing = _pairs(vital, changed)
    control_pairs, _ = _pairs(vital, controls)
    return Compared(
        vital,
        before=tuple(before for before, _ in pairs),
        after=tuple(after for _, after in pairs),
        control_before=tuple(before for before, _ in control_pairs),
        control_after=tuple(after for _, after in control_pairs),
        missing=missing,
    )


def _pairs(vital: Vital, seen: Mapping[InstanceId, Seen]) -> tuple[list[tuple[float, float]], dict[InstanceId, str]]:
    pairs, missing = [], {}
    for instance_id in sorted(seen):
        each = seen[instance_id]
        before, after = _figure(vital, each.before), _figure(vital, each.after)
        if isinstance(before, float) and isinstance(after, float):
            pairs.append((before, after))
        else:
            missing[instance_id] = f"before: {before}" if isinstance(before, str) else f"after: {after}"
    return pairs, missing


def _figure(vital: Vital, vitals: Vitals | None) -> float | str:
    """The figure, or why there is none."""
    if vitals is None:
        return "no answer"
    figure = vitals.figures.get(vital)
    return vitals.missing.get(vital, "not taken") if figure is None else float(figure)
