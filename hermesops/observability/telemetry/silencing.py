"""Which silences may be made: what they are about, and for how long. Pure: the time is an argument."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta

from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.alert import (
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
from hermesops.model.selector import Selector
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
        )
    },
}
"""Fields of ``--where`` by the label of alerts that each is about."""

LONGEST = timedelta(days=7)
LONGEST_ACKNOWLEDGEMENT = timedelta(hours=24)

_WIDE = frozenset({SEVERITY, "owner", SCOPE})
"""Labels that every alert has, of what it means and not of what it is about; a silence needs others."""


def selector_of(where: str) -> Selector:
    """The conditions of ``--where``.

    Raises:
        UsageError: A field or a severity is unknown, or it cannot be read.
    """
    selector = Selector.parse(where, fields=frozenset(LABEL_OF))
    for word in sorted(selector.values(SEVERITY) - set(Severity)):
        raise UsageError(f"--where knows no severity {shown(word)}; there are {', '.join(Severity)}")
    return selector


def matchers_of(conditions: Mapping[str, Collection[str]]) -> tuple[Matcher, ...]:
    """The matchers of conditions by fields of ``LABEL_OF``; users are ids of instances by now.

    Raises:
        RefusedError: They match every alert, nearly every one, or the one that proves that alerts arrive.
    """
    found = tuple(matcher(LABEL_OF[name], sorted(values)) for name, values in sorted(conditions.items()))
    if not {one.label for one in found} - _WIDE:
        what = " and ".join(sorted(one.label for one in found))
        raise RefusedError(
            f"a silence about {what} alone takes alerts of the whole fleet" if what else "a silence of everything",
            hint=Hint("name an alert, a user or a cell:", ("alert", "silence", "--where", "alert=ALERT,cell=CELL")),
        )
    if WATCHDOG in conditions.get("alert", ()):
        raise RefusedError(f"{WATCHDOG} always fires: silenced, it would look as if monitoring were dead")
    return found


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
        raise RefusedError(f"{WATCHDOG} always fires: it shows that alerts arrive, and nobody works on it")
    found = [one for one in alerts if one.name == name and instance in {"", one.instance}]
    if not found:
        whose = f" of {title}" if title else ""
        raise UsageError(f"no alert {shown(name)}{whose} is open", hint=Hint(("alert", "list", "--all")))
    if instance:
        return (Matcher(NAME, name), Matcher(INSTANCE, instance)), tuple(found)
    # One of the fleet has the name of those of single instances, which it hides.
    found = [one for one in found if not one.instance] or found
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} alerts {name} are open: which?",
            hint=Hint(("alert", "ack", name, "--instance", "USER", "--reason", "WHY")),
        )
    about = sorted((label, value) for label, value in found[0].labels.items() if label not in {SEVERITY, "owner"})
    return tuple(Matcher(label, value) for label, value in about), tuple(found)


def silence_of(
    matchers: tuple[Matcher, ...], *, now: datetime, length: timedelta, who: str, reason: str, is_acknowledgement: bool
) -> Silence:
    """A silence from now on.

    Raises:
        UsageError: It has no reason, or lasts too long or no time at all.
    """
    longest = LONGEST_ACKNOWLEDGEMENT if is_acknowledgement else LONGEST
    if not reason.strip():
        raise UsageError("a silence needs a reason: others read it who wonder why nobody was told", hint="--reason WHY")
    if not timedelta(0) < length <= longest:
        raise UsageError(f"--for: more than nothing, and {longest / timedelta(hours=1):g} h at most")
    comment = f"{ACKNOWLEDGED if is_acknowledgement else ''}{reason.strip()}"
    return Silence("", "active", matchers, now, now + length, who, comment)
