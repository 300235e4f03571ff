"""Who gets a release before the others: in turn, and not always the same. Pure.

Those who asked for it come first. Of the others, whoever was first least often; so the duty goes round, and over
twenty releases at 5 % of at least seven instances nobody has it more than three times. Protected users come last.
Within each of these, every part of the order looks like the whole: by plan, cell, region and agent version.
"""

from collections.abc import Iterable

from hermesops.model.release import ReleaseId
from hermesops.model.rollout import Target, salted


def fair_order(targets: Iterable[Target], release: ReleaseId) -> list[Target]:
    """The targets in the order in which they get a release; the same for the same release, another for the next."""
    groups: dict[tuple[bool, bool, int], list[Target]] = {}
    for target in targets:
        groups.setdefault(_precedence(target), []).append(target)
    return [target for key in sorted(groups) for target in _spread(groups[key], release)]


def stratum(target: Target) -> tuple[str, str, str, str]:
    """What makes targets alike, as far as a release may treat them differently."""
    return target.plan, target.cell, target.region, target.agent_version


def _precedence(target: Target) -> tuple[bool, bool, int]:
    """Smaller comes first. Who asked to be first is not spared for having been it."""
    return target.protected, not target.opted_in, 0 if target.opted_in else target.exposures


def _spread(targets: list[Target], release: ReleaseId) -> Iterable[Target]:
    """Strata mixed as evenly as they can be.

    The members of a stratum stand at even distances; where the first stands, and who that is, follows from the release.
    """
    strata: dict[tuple[str, str, str, str], list[tuple[float, Target]]] = {}
    for target in targets:
        strata.setdefault(stratum(target), []).append((salted(release, target.instance_id), target))
    placed: list[tuple[float, float, Target]] = []
    for key, members in strata.items():
        offset = salted(release, *key)
        ordered = sorted(members, key=lambda member: (member[0], member[1].instance_id))
        placed += [((place + offset) / len(ordered), salt, target) for place, (salt, target) in enumerate(ordered)]
    return (target for _, _, target in sorted(placed, key=lambda each: (each[0], each[1], each[2].instance_id)))
