"""The health gate: did a vital get worse by the release? Each instance against itself, canaries against controls. Pure.

Machines differ far more from one another than a release changes them, so what counts is the change of each instance's
own figure. What changed for untouched instances in the same stretch of time (a slow model provider, an evening) changed
for the canaries too, and is subtracted. Nothing is assumed about the distribution of figures: the exact rank test of
Mann and Whitney over the changes, and the median of all pairwise differences (Hodges and Lehmann) for their size.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import comb, erfc, exp, log, sqrt
from statistics import median

from hermesops.agents.rollout.ports import Comparison
from hermesops.model.fleet.vitals import Vital
from hermesops.model.ids import InstanceId
from hermesops.model.rollout.records import GateResult
from hermesops.model.rollout.spec import TOLERANCES, Tolerance

_EXACT = 20_000
"""Up to this many pairs times ranks the distribution is counted exactly; above, its normal limit does not differ."""

_WITNESSES = 2
"""Controls that must have data before one canary alone has failed: else all of the platform may be slow."""

_LEAST = 1e-9
"""Instead of 0 where a ratio is taken."""


@dataclass(frozen=True)
class Compared:
    """The result for one vital.

    Attributes:
        canaries: How many of them had data; ``controls`` likewise.
        worse: By how much canaries got worse beyond controls: a factor where the tolerance is relative, else an amount.
        chance: Probability of such figures if the release made it no worse than is allowed; 1 where that is unknown.
    """

    vital: Vital
    result: GateResult
    why: str
    canaries: int
    controls: int
    worse: float
    chance: float


def compare(comparison: Comparison, *, alpha: float, floor: int) -> Compared:
    """Judge one vital.

    Args:
        alpha: Probability of taking noise for harm.
        floor: Instances with data that either side needs.
    """
    tolerance = TOLERANCES[comparison.vital]
    canaries = _changes(comparison.canaries, tolerance)
    controls = _changes(comparison.controls, tolerance)
    worse, chance = 0.0, 1.0
    if canaries and controls:
        worse = median(canary - control for canary in canaries for control in controls)
        chance = chance_of([change - _allowed(tolerance) for change in canaries], controls)
    result, why = _verdict(comparison.vital, worse, chance, (len(canaries), len(controls)), alpha=alpha, floor=floor)
    shown = exp(worse) if tolerance.relative else worse
    return Compared(comparison.vital, result, why, len(canaries), len(controls), round(shown, 4), chance)


def has_power(canaries: int, controls: int, *, alpha: float, floor: int) -> bool:
    """Whether so many with data could show harm at all: the smallest chance that their ranks can have is small enough.

    Args:
        canaries: Changed instances with data.
        controls: Unchanged ones with data.
    """
    return min(canaries, controls) >= floor and 1 / comb(canaries + controls, canaries) <= alpha


def _verdict(
    vital: Vital, worse: float, chance: float, sizes: tuple[int, int], *, alpha: float, floor: int
) -> tuple[GateResult, str]:
    tolerance = TOLERANCES[vital]
    name = named(vital)
    if not sizes[0]:
        return GateResult.NOT_EXERCISED, f"{name}: no figures of changed agents yet"
    if not has_power(*sizes, alpha=alpha, floor=floor):
        needs = f" (needs {floor} of each)" if min(sizes) < floor else ""
        return GateResult.INCONCLUSIVE, f"{name}: too few agents, {sizes[0]} changed and {sizes[1]} unchanged{needs}"
    change = _grown(tolerance).format(_size(worse, tolerance))
    harm = f"{name} {change}, relative to unchanged agents (limit {tolerance.allowed:g})"
    if chance < alpha:
        return GateResult.FAIL, harm
    if worse > _allowed(tolerance):
        return GateResult.INCONCLUSIVE, f"no verdict yet: {harm}; it may be chance"
    return GateResult.PASS, f"{name} {_figure(worse, tolerance)} (limit {tolerance.allowed:g})"


def worse_than_controls(comparisons: Iterable[Comparison]) -> dict[InstanceId, str]:
    """Canaries that got critically worse, each by itself and in more than one sample, with the reason.

    Worse than before and worse than others: where others got better, as after their first turn, one that stayed as it
    was has not failed.
    """
    harms: dict[InstanceId, str] = {}
    for comparison in comparisons:
        tolerance = TOLERANCES[comparison.vital]
        controls = _changes(comparison.controls, tolerance)
        if len(controls) < _WITNESSES:
            continue
        usual = max(0.0, median(controls))
        critical = log(tolerance.critical) if tolerance.relative else tolerance.critical
        for instance_id, pair in comparison.canaries.items():
            lasting = comparison.lasting.get(instance_id)
            if lasting is None:
                continue
            excess = min(_change(pair, tolerance), _change((pair[0], lasting), tolerance)) - usual
            if excess > critical:
                harms.setdefault(instance_id, _harm(comparison.vital, excess, tolerance, beside_others=usual > 0))
    return harms


def _harm(vital: Vital, excess: float, tolerance: Tolerance, *, beside_others: bool) -> str:
    """The sentence on one canary that got critically worse."""
    change = _grown(tolerance).format(_size(excess, tolerance))
    corrected = ", relative to unchanged agents" if beside_others else ""
    return f"{named(vital)} {change}{corrected} (limit {tolerance.critical:g})"


def chance_of(ones: Sequence[float], others: Sequence[float]) -> float:
    """Probability that ``ones`` rank as high among both, or higher, if both were drawn alike. Ties share their rank."""
    ranks = _doubled_ranks([*ones, *others])
    mine, total = len(ones), len(ranks)
    observed = sum(ranks[:mine])
    if mine * (total - mine) * total <= _EXACT:
        return _counted(sorted(ranks), mine, observed)
    mean = mine * sum(ranks) / total
    spread = sum((rank - sum(ranks) / total) ** 2 for rank in ranks) / total
    deviation = sqrt(mine * (total - mine) * spread / (total - 1))
    return 0.5 * erfc((observed - 1 - mean) / deviation / sqrt(2)) if deviation else 1.0


def _counted(ranks: Sequence[int], mine: int, observed: int) -> float:
    """The share of all choices of ``mine`` ranks whose sum is at least ``observed``."""
    ways: list[dict[int, int]] = [{0: 1}, *({} for _ in range(mine))]
    for rank in ranks:
        for size in range(mine, 0, -1):
            for total, count in ways[size - 1].items():
                ways[size][total + rank] = ways[size].get(total + rank, 0) + count
    return sum(count for total, count in ways[mine].items() if total >= observed) / comb(len(ranks), mine)


def _doubled_ranks(values: Sequence[float]) -> list[int]:
    """Twice each value's rank: whole numbers, even where ties share the middle one."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0] * len(values)
    place = 0
    for _, tied in groupby(order, key=values.__getitem__):
        members = list(tied)
        for index in members:
            ranks[index] = 2 * place + len(members) + 1
        place += len(members)
    return ranks


def _changes(pairs: Mapping[InstanceId, tuple[float, float]], tolerance: Tolerance) -> list[float]:
    return [_change(pairs[instance_id], tolerance) for instance_id in sorted(pairs)]


def _change(pair: tuple[float, float], tolerance: Tolerance) -> float:
    before, after = pair
    if tolerance.relative:
        return log(max(after, _LEAST)) - log(max(before, _LEAST))
    return after - before


def _allowed(tolerance: Tolerance) -> float:
    return log(tolerance.allowed) if tolerance.relative else tolerance.allowed


def named(vital: str) -> str:
    """A vital as people read it."""
    return vital.replace("_", " ")


def _grown(tolerance: Tolerance) -> str:
    return "is {:.2f} times what it was before" if tolerance.relative else "rose by {:.2f}"


def _size(worse: float, tolerance: Tolerance) -> float:
    return exp(worse) if tolerance.relative else worse


def _figure(worse: float, tolerance: Tolerance) -> str:
    return f"{exp(worse):.2f} times" if tolerance.relative else f"{worse:+.2f}"
