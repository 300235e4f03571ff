"""Open alerts that hold a rollout, as a freeze does. Pure.

That it is not known which alerts are open holds it as well: what cannot be seen is never taken for good. The operator
who starts it may decide otherwise, for both.
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from hermesops.agents.rollout.ports import AlertState
from hermesops.base.narration import counted
from hermesops.model.fleet.alert import SCOPE, Alert, Severity
from hermesops.model.rollout.records import RolloutTarget
from hermesops.model.rollout.spec import Spec
from hermesops.wire.foreign_text import one_line

HELD, UNKNOWN = "held by ", "open alerts are unknown: "
"""Beginnings of the reasons to wait."""

_WIDE = frozenset({"cell", "fleet"})
_NAMED = 4
"""Alerts that are named; the rest are counted."""


def held_by_alerts(state: AlertState, targets: Sequence[RolloutTarget], spec: Spec) -> str:
    """Why open alerts forbid changes now; empty when they do not."""
    if spec.despite_alerts or spec.emergency:
        return ""
    if state.unknown:
        return f"{UNKNOWN}{state.unknown}"
    names = sorted({_named(alert) for alert in state.open if _concerns(alert, targets)})
    if not names:
        return ""
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    return f"{HELD}{counted(len(names), 'open alert')}: {', '.join(names[:_NAMED])}{more}"


def holding(
    alerts: Collection[Alert],
    acknowledgements: Iterable[str],
    is_ending: Callable[[Alert], bool | None] = lambda _: None,
) -> tuple[Alert, ...]:
    """The alerts that hold rollouts: pages about more than one instance, whose own health gates judge already.

    An acknowledged one does: somebody works on it, and it is not over. One that is silenced otherwise does not:
    somebody has said that it does not matter. Neither does one that another alert hides, which is open itself, nor one
    that is ending: its rule only keeps it open for a while, and then it hides nothing either.

    Args:
        acknowledgements: Ids of silences that only say that somebody works on an alert.
        is_ending: Whether the condition of an alert is over; ``None`` for unknown, which holds.
    """
    only_seen = frozenset(acknowledgements)
    ending = {alert.fingerprint for alert in alerts if alert.fingerprint and is_ending(alert)}
    return tuple(
        alert
        for alert in alerts
        if alert.labels.get(SCOPE) in _WIDE
        and alert.severity in {Severity.PAGE, None}
        and not is_ending(alert)
        and ending.issuperset(alert.inhibited_by)
        and only_seen.issuperset(alert.silenced_by)
    )


def _concerns(alert: Alert, targets: Sequence[RolloutTarget]) -> bool:
    """Whether an alert is about one of the targets, about a cell of theirs, or about the whole platform."""
    if alert.instance:
        return any(target.id == alert.instance for target in targets)
    return not alert.cell or any(target.facts.cell == alert.cell for target in targets)


def _named(alert: Alert) -> str:
    return one_line(f"{alert.name} of {alert.cell}" if alert.cell else alert.name, longest=100)
