"""The spec of a rollout from an operator's choices, and the gates of a replay. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from hermesops.agents.rollout.gates.hooks import parse_hook
from hermesops.agents.rollout.plan.admission import refuse_spec
from hermesops.errors import UsageError
from hermesops.model.rollout_spec import Gates, HealthGate, Spec
from hermesops.model.vitals import Vital

NO_VITALS = "none"
"""Switches the health gate off."""


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


def _vitals(text: str) -> tuple[str, ...]:
    names = () if text == NO_VITALS else tuple(map(str.strip, text.split(",")))
    for name in names:
        if name not in set(Vital):
            raise UsageError(f"--vitals {name!r}: one of {', '.join(Vital)}, or {NO_VITALS}")
    return names
