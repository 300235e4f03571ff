"""Output of ``hermesops alert``: rows and lines for people."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.errors import Hint
from hermesops.model.fleet.alert import ACKNOWLEDGED
from hermesops.views.observability import alerts as shapes
from hermesops.views.timestamps import span
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


def alert_row(open_alert: "OpenAlert", now: datetime) -> dict[str, object]:
    """A row for people: how long the alert has fired, and its figure on one line."""
    shown = shapes.alert(open_alert, now)
    figure = open_alert.alert.figure or open_alert.alert.summary
    return {
        **shown,
        "user": open_alert.user or open_alert.alert.instance or _several(open_alert.stands_for),
        "state": _state_line(open_alert),
        "severity": shown["severity"] or one_line(open_alert.alert.labels.get("severity", "unknown"), longest=20),
        "for": span((now - open_alert.alert.since).total_seconds()),
        "figure": one_line(f"was: {figure}" if open_alert.ending else figure, longest=_FIGURE),
    }


def _state_line(open_alert: "OpenAlert") -> str:
    acknowledgement = open_alert.acknowledged
    if acknowledgement is None:
        return shapes.state_of(open_alert)
    who = one_line(acknowledgement.who, longest=_WHO)
    why = one_line(acknowledgement.comment.removeprefix(ACKNOWLEDGED), longest=_FIGURE)
    return f"acknowledged by {who}: {why} until {acknowledgement.ends_at:%m-%d %H:%M} UTC"


def _several(users: Sequence[str]) -> str:
    more = f" +{len(users) - _NAMED}" if len(users) > _NAMED else ""
    return ", ".join(users[:_NAMED]) + more


def silence_row(row: "Silence", users: Mapping[str, str]) -> dict[str, object]:
    """A row for people, with users in the place of instances' ids."""
    return {**shapes.silence(row), "what": one_line(shapes.matched(row, users))}


def silence_line(row: "Silence", what: str, undo: Hint) -> Hint:
    """The end of a new silence, and the command that lifts it."""
    return Hint(f"{what} until {row.ends_at:%Y-%m-%d %H:%M} UTC:", undo, "ends that")
