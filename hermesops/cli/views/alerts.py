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
    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

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


def alert(open_alert: "OpenAlert", now: datetime) -> dict[str, object]:
    """The JSON object of an open alert, with its acknowledgement and the next command."""
    details = open_alert.alert
    return {
        "alert": details.name,
        "user": open_alert.user or None,
        "stands_for": list(open_alert.stands_for),
        "instance_id": details.instance or None,
        "cell": details.cell or None,
        "severity": details.severity.value if details.severity else None,
        "state": state_of(open_alert),
        "ending": open_alert.ending,
        "since": timestamp(details.since),
        "for_s": round((now - details.since).total_seconds()),
        "summary": details.summary,
        "figure": details.figure,
        "runbook": details.runbook or None,
        "labels": dict(details.labels),
        "silenced_by": list(details.silenced_by),
        "acknowledged": _acknowledged(open_alert.acknowledged) if open_alert.acknowledged else None,
        "next": open_alert.next,
    }


def alert_row(open_alert: "OpenAlert", now: datetime) -> dict[str, object]:
    """A row for people: how long the alert has fired, and its figure on one line."""
    shown = alert(open_alert, now)
    figure = open_alert.alert.figure or open_alert.alert.summary
    return {
        **shown,
        "user": open_alert.user or open_alert.alert.instance or _several(open_alert.stands_for),
        "state": _state_line(open_alert),
        "severity": shown["severity"] or one_line(open_alert.alert.labels.get("severity", "unknown"), longest=20),
        "for": span((now - open_alert.alert.since).total_seconds()),
        "figure": one_line(f"was: {figure}" if open_alert.ending else figure, longest=_FIGURE),
    }


def _acknowledged(acknowledgement: "Silence") -> dict[str, object]:
    return {
        "by": acknowledgement.who,
        "reason": acknowledgement.comment.removeprefix(ACKNOWLEDGED),
        "until": timestamp(acknowledgement.ends_at),
    }


def _state_line(open_alert: "OpenAlert") -> str:
    acknowledgement = open_alert.acknowledged
    if acknowledgement is None:
        return state_of(open_alert)
    who = one_line(acknowledgement.who, longest=_WHO)
    why = one_line(acknowledgement.comment.removeprefix(ACKNOWLEDGED), longest=_FIGURE)
    return f"acknowledged by {who}: {why} until {acknowledgement.ends_at:%m-%d %H:%M} UTC"


def _several(users: Sequence[str]) -> str:
    more = f" +{len(users) - _NAMED}" if len(users) > _NAMED else ""
    return ", ".join(users[:_NAMED]) + more


def state_of(open_alert: "OpenAlert") -> str:
    """The state of an alert: acknowledged, silenced, inhibited, ending or open; the first that applies."""
    if open_alert.acknowledged:
        return "acknowledged"
    if open_alert.alert.silenced_by:
        return "silenced"
    if open_alert.alert.inhibited_by:
        return "inhibited"
    return "ending" if open_alert.ending else "open"


def silence(row: "Silence") -> dict[str, object]:
    """The JSON object of a silence or of an acknowledgement."""
    return {
        "id": row.id,
        "state": row.state,
        "acknowledges": row.is_acknowledgement,
        "matchers": [str(each) for each in row.matchers],
        "begins_at": timestamp(row.begins_at),
        "ends_at": timestamp(row.ends_at),
        "who": row.who,
        "comment": row.comment,
    }


def silence_row(row: "Silence", users: Mapping[str, str]) -> dict[str, object]:
    """A row for people, with users in the place of instances' ids."""
    return {**silence(row), "what": one_line(matched(row, users))}


def matched(row: "Silence", users: Mapping[str, str]) -> str:
    """The matchers of a silence, in words."""
    return ", ".join(
        f"user={users[each.value]}" if each.label == INSTANCE and each.is_equal and each.value in users else str(each)
        for each in row.matchers
    )


def silence_line(row: "Silence", what: str, undo: Hint) -> Hint:
    """The end of a new silence, and the command that lifts it."""
    return Hint(f"{what} until {row.ends_at:%Y-%m-%d %H:%M} UTC:", undo, "ends that")


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
