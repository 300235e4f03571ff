"""Output of ``hermesops alert``: shapes for programs, lines for people."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.errors import Hint
from hermesops.model.fleet.alert import ACKNOWLEDGED, INSTANCE
from hermesops.views.shapes import timestamp
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from hermesops.model.fleet.alert import Silence
    from hermesops.observability.telemetry.shown_alerts import OpenAlert

COLUMNS = ("severity", "alert", "user", "cell", "for", "state", "figure", "next")
"""Of the table of open alerts."""

SILENCES = ("id", "state", "what", "ends_at", "who", "comment")
"""Of the table of silences."""

_NAMED = 3
"""Users that are named of an alert about several."""

_WHO = 40
"""Characters of a name in the table: anybody who reaches Alertmanager writes any name."""

_FIGURE = 100
"""Characters of a figure in the table."""


def alert(one: "OpenAlert", now: datetime) -> dict[str, object]:
    """An open alert."""
    found = one.alert
    return {
        "alert": found.name,
        "user": one.user or None,
        "stands_for": list(one.stands_for),
        "instance_id": found.instance or None,
        "cell": found.cell or None,
        "severity": found.severity.value if found.severity else None,
        "state": state_of(one),
        "ending": one.ending,
        "since": timestamp(found.since),
        "for_s": round((now - found.since).total_seconds()),
        "summary": found.summary,
        "figure": found.figure,
        "runbook": found.runbook or None,
        "labels": dict(found.labels),
        "silenced_by": list(found.silenced_by),
        "acknowledged": _acknowledged(one.acknowledged) if one.acknowledged else None,
        "next": one.next,
    }


def alert_row(one: "OpenAlert", now: datetime) -> dict[str, object]:
    """A row for people: how long the alert has fired, and its figure on one line."""
    shown = alert(one, now)
    figure = one.alert.figure or one.alert.summary
    return {
        **shown,
        "user": one.user or one.alert.instance or _several(one.stands_for),
        "state": _state_line(one),
        "severity": shown["severity"] or one_line(one.alert.labels.get("severity", "unknown"), longest=20),
        "for": span((now - one.alert.since).total_seconds()),
        "figure": one_line(f"was: {figure}" if one.ending else figure, longest=_FIGURE),
    }


def _acknowledged(made: "Silence") -> dict[str, object]:
    return {
        "by": made.who,
        "reason": made.comment.removeprefix(ACKNOWLEDGED),
        "until": timestamp(made.ends_at),
    }


def _state_line(one: "OpenAlert") -> str:
    made = one.acknowledged
    if made is None:
        return state_of(one)
    why = one_line(made.comment.removeprefix(ACKNOWLEDGED), longest=_FIGURE)
    return f"acknowledged by {one_line(made.who, longest=_WHO)}: {why} until {made.ends_at:%m-%d %H:%M} UTC"


def _several(users: Sequence[str]) -> str:
    more = f" +{len(users) - _NAMED}" if len(users) > _NAMED else ""
    return ", ".join(users[:_NAMED]) + more


def state_of(one: "OpenAlert") -> str:
    """Whether anybody is told of it or works on it, and then whether its cause is over."""
    if one.acknowledged:
        return "acknowledged"
    if one.alert.silenced_by:
        return "silenced"
    if one.alert.inhibited_by:
        return "inhibited"
    return "ending" if one.ending else "open"


def silence(one: "Silence") -> dict[str, object]:
    """A silence."""
    return {
        "id": one.id,
        "state": one.state,
        "acknowledges": one.is_acknowledgement,
        "matchers": [str(each) for each in one.matchers],
        "begins_at": timestamp(one.begins_at),
        "ends_at": timestamp(one.ends_at),
        "who": one.who,
        "comment": one.comment,
    }


def silence_row(one: "Silence", users: Mapping[str, str]) -> dict[str, object]:
    """A row for people, with users in the place of instances' ids."""
    return {**silence(one), "what": one_line(matched(one, users))}


def matched(one: "Silence", users: Mapping[str, str]) -> str:
    """The matchers of a silence, in words."""
    return ", ".join(
        f"user={users[each.value]}" if each.label == INSTANCE and each.is_equal and each.value in users else str(each)
        for each in one.matchers
    )


def silence_line(one: "Silence", what: str, undo: Hint) -> Hint:
    """The end of a new silence, and the command that lifts it."""
    return Hint(f"{what} until {one.ends_at:%Y-%m-%d %H:%M} UTC:", undo, "ends that")


def span(seconds: float) -> str:
    """A stretch of time in its two largest units, as ``3 h 5 min``; ``-`` for one that cannot be."""
    if seconds < 0:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
