"""Shapes of open alerts, and of silences."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.model.fleet.alert import ACKNOWLEDGED, INSTANCE
from hermesops.views.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from hermesops.model.fleet.alert import Silence
    from hermesops.observability.alerts.check import Checked
    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert


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


def about(alerts: "Iterable[OpenAlert]", now: datetime) -> dict[str, object]:
    """The open alerts that an acknowledgement or a silence takes."""
    return {"alerts": [alert(open_alert, now) for open_alert in alerts]}


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


def matched(row: "Silence", users: "Mapping[str, str]") -> str:
    """The matchers of a silence, in words."""
    return ", ".join(
        f"user={users[each.value]}" if each.label == INSTANCE and each.is_equal and each.value in users else str(each)
        for each in row.matchers
    )


def lift_preview(row: "Silence", alerts: "Iterable[OpenAlert]", now: datetime) -> dict[str, object]:
    """A silence before its end: the open alerts of which somebody is told again."""
    return {"silence": silence(row), **about(alerts, now)}


def _acknowledged(acknowledgement: "Silence") -> dict[str, object]:
    return {
        "by": acknowledgement.who,
        "reason": acknowledgement.comment.removeprefix(ACKNOWLEDGED),
        "until": timestamp(acknowledgement.ends_at),
    }


def check(checked: "Checked") -> dict[str, object]:
    """Checked files of monitoring: their problems, and the programs that were not there to check them."""
    return {
        "files": [str(path) for path in checked.files],
        "problems": [
            {"file": problem.file, "line": problem.line, "problem": problem.message} for problem in checked.problems
        ],
        "missing": list(checked.missing),
    }
