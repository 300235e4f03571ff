"""The spec of a rollout: chosen by an operator, refused where impossible, and scored by its blast radius. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from math import log2
from typing import Any

from hermesops.agents.rollout.gates.hooks import parse_hook
from hermesops.agents.rollout.plan.windows import parse_window
from hermesops.agents.rollout.records.events import hook_kind
from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.fleet.vitals import Vital
from hermesops.model.rollout.records import RolloutTarget
from hermesops.model.rollout.spec import Gates, HealthGate, Spec

NO_VITALS = "none"
"""Switches the health gate off."""

_PER_DOUBLING = 6.0
"""Points for each doubling of the users that are touched: 200 of them are 46, a thousand are 60."""

_PROTECTED = 15.0
_UNGUARDED = 20.0
_EMERGENCY = 10.0

_HINT = Hint(("rollout", "start", "--help"))


def chosen_spec(spec: Spec, *, vitals: str = "", hooks: Sequence[str] = (), manual_before: Iterable[int] = ()) -> Spec:
    """A spec with the gates of an operator's choice.

    Args:
        spec: Everything else that was chosen.
        vitals: Names of vitals, comma-separated; empty for the usual ones.
        hooks: As ``parse_hook`` reads them.
        manual_before: Numbers of the stages that wait for an operator.

    Raises:
        UsageError: A value cannot be read, or no rollout can be carried out with it.
    """
    health = HealthGate(vitals=_vitals(vitals)) if vitals else spec.gates.health
    gates = Gates(health=health, hooks=tuple(map(parse_hook, hooks)), manual_before=tuple(manual_before))
    chosen = replace(spec, gates=gates)
    refuse_spec(chosen)
    return chosen


def other_gates(spec: Spec, *, vitals: str, early_failures: int, **rates: float) -> Gates:
    """The gates of a rollout with other figures; an empty or negative one leaves the rollout's own.

    Raises:
        UsageError: Gates cannot work with them.
    """
    failures = spec.gates.failures
    chosen: dict[str, Any] = {name: value for name, value in rates.items() if value >= 0}
    failures = replace(failures, early_failures=early_failures or failures.early_failures, **chosen)
    gates = replace(spec.gates, failures=failures)
    if vitals:
        gates = replace(gates, health=replace(gates.health, vitals=_vitals(vitals)))
    refuse_spec(replace(spec, gates=gates))
    return gates


def refuse_spec(spec: Spec) -> None:
    """Refuse a spec that cannot be carried out.

    Raises:
        UsageError: It names everything that is wrong with it.
    """
    wrong = [*_stages(spec), *_limits(spec), *_gates(spec.gates, len(spec.stages))]
    for window in spec.windows:
        parse_window(window)
    if wrong:
        raise UsageError("; ".join(wrong), hint=_HINT)


def refuse_raised(spec: Spec, limit: float) -> None:
    """Refuse a spec that raises the blast radius above which a second operator must approve.

    Raises:
        UsageError: They raise it.
    """
    if spec.two_person_above > limit:
        raise UsageError(
            f"stages with a blast radius above {limit:g} need a second operator's approval: "
            f"this request raises the limit to {spec.two_person_above:g}",
            hint=Hint(
                Parameter("two_person_above", f"{limit:g}"),
                "or less, or leave it out; the setting two_person_above is the limit",
            ),
        )


def blast_radius(touched: Sequence[RolloutTarget], spec: Spec) -> float:
    """How much a step could break at worst, as a score.

    Args:
        touched: The targets that run the release once the step is done.
        spec: Gates that are switched off, an emergency, and going on despite alerts raise it.
    """
    if not touched:
        return 0.0
    score = _PER_DOUBLING * log2(len(touched))
    score += _PROTECTED * any(target.facts.protected for target in touched)
    score += _UNGUARDED * (not spec.gates.health.vitals and not spec.gates.probe.share)
    score += _EMERGENCY * bool(spec.emergency or spec.despite_alerts)
    return round(score, 1)


def _stages(spec: Spec) -> Iterator[str]:
    rising = all(before < after for before, after in zip(spec.stages, spec.stages[1:], strict=False))
    if not spec.stages or spec.stages[-1] != 1 or spec.stages[0] <= 0 or not rising:
        yield "stages must rise above 0 and end at 100 %"


def _limits(spec: Spec) -> Iterator[str]:
    if not 0 < spec.max_unavailable <= 1 or spec.most_unavailable < 1:
        yield "at least one and at most all may be unavailable at once"
    for name in ("settle_s", "soak_s", "data_s", "drain_s", "defer_s"):
        if getattr(spec, name) < 0:
            yield f"{name} cannot be below 0"
    if spec.confirm_s <= 0 or spec.unreachable_after_s <= 0:
        yield "confirm_s and unreachable_after_s must be above 0"
    if spec.attempt_s < spec.confirm_s + spec.drain_s:
        yield f"attempt_s must leave room for draining and confirming: {spec.confirm_s + spec.drain_s:g} s or more"


def _gates(gates: Gates, stages: int) -> Iterator[str]:
    failures, health = gates.failures, gates.health
    if not 0 < failures.base_rate < failures.bad_rate < 1:
        yield "the failure gate needs 0 < base rate < bad rate < 1"
    if not (0 < failures.alpha < 0.5 and 0 < failures.beta < 0.5):  # noqa: PLR2004 - above that chance decides better
        yield "error rates of the failure gate lie between 0 and 0.5"
    if not 0 <= failures.unseen_rate <= 1:
        yield "the share of targets that may be out of sight lies between 0 and 1"
    if failures.early_failures < 1 or not 0 <= failures.early_rate < 1:
        yield "the failure gate's rule needs one failure or more, and a share below 1"
    known = ", ".join(Vital)
    yield from (f"there is no vital {name!r}: {known}" for name in health.vitals if name not in set(Vital))
    if not (0 < health.alpha < 1 and health.floor >= 1 and 0 <= health.share <= 1 and 0 <= gates.probe.share <= 1):
        yield "shares and error rates lie between 0 and 1, and a floor is 1 or more"
    if not 0 <= gates.messages.alpha < 1 or gates.messages.floor < 1:
        yield "the messages gate needs an error rate below 1, and one mute agent or more"
    for hook in gates.hooks:
        if not hook.name or hook.timeout_s <= 0:
            yield f"gate {hook.name!r} needs a name and a time limit"
    if len({hook_kind(hook.name) for hook in gates.hooks}) != len(gates.hooks):
        yield "two gates have the same name, as far as an event's kind holds it"
    yield from (f"there is no stage {number}" for number in gates.manual_before if not 1 <= number <= stages)


def _vitals(text: str) -> tuple[str, ...]:
    names = () if text == NO_VITALS else tuple(map(str.strip, text.split(",")))
    for name in names:
        if name not in set(Vital):
            raise UsageError(f"{name!r} is none of {', '.join(Vital)}, or {NO_VITALS}", field="vitals")
    return names
