"""Rules for silences: allowed matchers and durations. Pure: the time is an argument."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from hermesops.errors import Hint, Parameter, RefusedError, UsageError
from hermesops.model.fleet.alert import (
    ACKNOWLEDGED,
    CELL,
    INSTANCE,
    NAME,
    SCOPE,
    SEVERITY,
    WATCHDOG,
    Alert,
    Matcher,
    Severity,
    Silence,
    matcher,
)
from hermesops.model.fleet.selector import WHERE, Selector
from hermesops.model.unknown_name import shown

LABEL_OF: Mapping[str, str] = {
    "alert": NAME,
    "user": INSTANCE,
    CELL: CELL,
    SEVERITY: SEVERITY,
    **{
        name: name
        for name in (
            "database",
            "machine",
            "messenger",
            "mountpoint",
            "name",
            "operation",
            "owner",
            "provider",
            "reason",
            "rollout",
            SCOPE,
            "service",
            "state",
        )
    },
}
"""Fields of ``--where`` by the label of alerts that each is about."""

LONGEST = timedelta(days=7)
LONGEST_ACKNOWLEDGEMENT = timedelta(hours=24)

_WIDE = frozenset({SEVERITY, "owner", SCOPE})
"""Labels that every alert has, of what it means and not of what it is about; a silence needs others."""


def selector_of(where: str) -> Selector:
    """Parse the conditions of ``--where``.

    Raises:
        UsageError: A field or a severity is unknown, or it cannot be read.
    """
    selector = Selector.parse(where, fields=frozenset(LABEL_OF))
    for word in sorted(selector.values(SEVERITY) - set(Severity)):
        raise UsageError(f"there is no severity {shown(word)}; there are {', '.join(Severity)}", field=WHERE)
    return selector


def matchers_of(conditions: Mapping[str, Collection[str]]) -> tuple[Matcher, ...]:
    """The matchers of conditions by fields of ``LABEL_OF``; users are ids of instances by now.

    Raises:
        RefusedError: They match every alert, nearly every one, or the one that proves that alerts arrive.
    """
    matchers = tuple(matcher(LABEL_OF[name], sorted(values)) for name, values in sorted(conditions.items()))
    if not {matched.label for matched in matchers} - _WIDE:
        what = " and ".join(sorted(matched.label for matched in matchers))
        raise RefusedError(
            f"a silence by {what} alone mutes the whole fleet" if what else "a silence without conditions",
            hint=Hint("name an alert, a user or a cell:", ("alert", "silence", "--where", "alert=ALERT,cell=CELL")),
        )
    if WATCHDOG in conditions.get("alert", ()):
        raise RefusedError(f"{WATCHDOG} always fires: silenced, it would look as if monitoring were dead")
    return matchers


def acknowledged(
    alerts: Sequence[Alert], name: str, instance: str, title: str
) -> tuple[tuple[Matcher, ...], tuple[Alert, ...]]:
    """The matchers of a silence that acknowledges an alert, and the open alerts that they take.

    Args:
        alerts: Open ones, muted ones too.
        instance: Id; empty for an alert that is about no single instance.
        title: That instance's user.

    Raises:
        UsageError: It is not open, or it is open for several and none was named.
    """
    if name == WATCHDOG:
        raise RefusedError(f"{WATCHDOG} always fires: it proves that alerts arrive, and cannot be acknowledged")
    taken = [alert for alert in alerts if alert.name == name and instance in {"", alert.instance}]
    if not taken:
        whose = f" of {title}" if title else ""
        raise UsageError(f"no alert {shown(name)}{whose} is open", hint=Hint(("alert", "list", "--all")))
    if instance:
        return (Matcher(NAME, name), Matcher(INSTANCE, instance)), tuple(taken)
    # One of the fleet has the name of those of single instances, which it hides.
    taken = [alert for alert in taken if not alert.instance] or taken
    if len(taken) > 1:
        raise UsageError(
            f"{len(taken)} alerts {name} are open: name one instance",
            hint=Hint(("alert", "ack", name, "--instance", "USER", "--reason", "WHY")),
        )
    about = sorted((label, value) for label, value in taken[0].labels.items() if label not in {SEVERITY, "owner"})
    return tuple(Matcher(label, value) for label, value in about), tuple(taken)


def silence_of(
    matchers: tuple[Matcher, ...], *, now: datetime, length: timedelta, who: str, reason: str, is_acknowledgement: bool
) -> Silence:
    """A silence from now on.

    Raises:
        UsageError: It has no reason, or lasts too long or no time at all.
    """
    longest = LONGEST_ACKNOWLEDGEMENT if is_acknowledgement else LONGEST
    if not reason.strip():
        raise UsageError(
            "missing reason: other operators read it to learn why the alert is muted",
            hint=Hint(Parameter("reason", "WHY")),
        )
    if not timedelta(0) < length <= longest:
        raise UsageError(f"it must be more than nothing, and {longest / timedelta(hours=1):g} h at most", field="for")
    comment = f"{ACKNOWLEDGED if is_acknowledgement else ''}{reason.strip()}"
    return Silence("", "active", matchers, now, now + length, who, comment)
