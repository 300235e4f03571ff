"""The beginning of ``fleet status``: who is in trouble, since when, why, and what to do."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice, table_lines
from hermesops.cli.views.alerts import span, state_of
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.shapes import timestamp
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hermesops.agents.health.fleet_status import FleetStatus
    from hermesops.agents.health.trouble import Trouble

_COLUMNS = ("user", "health", "for", "why", "next")

_NAMED = 10
"""Rows for people; JSON has all."""

_WHY = 160
"""Characters of a reason: alerts and agents bring their own text."""


def rows(found: "Sequence[Trouble]", now: datetime) -> list[dict[str, object]]:
    """Everything that is wrong or unknown, the most urgent first."""
    return [
        {
            "user": one.subject if one.judged or any(alert.user for alert in one.alerts) else None,
            "subject": one.subject,
            "instance_id": one.judged.instance.id if one.judged else None,
            "cell": one.judged.cell if one.judged else None,
            "health": one.judged.judgement.condition.value if one.judged else None,
            "since": timestamp(one.since),
            "for_s": round((now - one.since).total_seconds()) if one.since else None,
            "reasons": list(one.reasons),
            "alerts": [alert.alert.name for alert in one.alerts],
            "next": one.next,
        }
        for one in found
    ]


def lines(found: "FleetStatus") -> list[str]:
    """Agents in trouble for people, below them unknown agents with their cause; or that all are well."""
    wrong = [one for one in found.trouble if not one.is_unknown]
    named = table_lines(_COLUMNS, [_row(one, found.now) for one in wrong[:_NAMED]], "", below="next") if wrong else []
    more = len(wrong) - _NAMED
    listing = ("fleet", "status", "--health", "down,silent,degraded")
    shown = [
        *named,
        *([advice(f"{more} more:", listing, "names them")] if more > 0 else []),
        *(_well(found) if not wrong else []),
        *_unknown(found),
        *([f"open alerts are not known: {one_line(found.unread, longest=_WHY)}"] if found.unread else []),
    ]
    return [*shown, ""] if shown else []


def _row(one: "Trouble", now: datetime) -> dict[str, object]:
    names = [f"{alert.alert.name}{_state(state_of(alert))}" for alert in one.alerts]
    why = one_line("; ".join(one.reasons), longest=_WHY)
    return {
        "user": one.subject,
        "health": one.judged.judgement.condition.value if one.judged else "alert",
        "for": span((now - one.since).total_seconds()) if one.since else "-",
        "why": f"{', '.join(names)}: {why}" if names else why,
        "next": advice(one.next),
    }


def _state(state: str) -> str:
    return "" if state == "open" else f" ({state})"


def _well(found: "FleetStatus") -> list[str]:
    """Nothing is known to be wrong."""
    judgements = found.health.judgements.values()
    if not judgements:
        return []
    well = sum(one.condition is Condition.HEALTHY for one in judgements)
    if well < len(judgements):
        return [f"{well} of {counted(len(judgements), 'agent')} {'is' if well == 1 else 'are'} well"] if well else []
    resting = sum(one.status is not InstanceStatus.RUNNING for cell in found.health.cells for one in cell.instances)
    beside = f"; {resting} more {'is' if resting == 1 else 'are'} not meant to run" if resting else ""
    return [f"all {well} agents are well{beside}" if well > 1 else f"the agent is well{beside}"]


def _unknown(found: "FleetStatus") -> list[str]:
    """Agents of which nothing is known, with the cause that they have in common, else with that of each."""
    unknown = [one for one in found.trouble if one.is_unknown]
    if not unknown:
        return []
    names = ", ".join(one.subject for one in unknown[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    noun = f"{counted(len(unknown), 'agent')} {'is' if len(unknown) == 1 else 'are'} unknown ({names}{more})"
    if not found.work.monitor:
        cause = f"{noun}: no monitor reads heartbeats, and no agent was asked in the last 90 s;"
        asks = (("fleet", "status", "--live", "--ask"), "asks now,", ("monitor",), "keeps watching")
        return [advice(cause, *asks)]
    why = ("fleet", "status", "--health", "unknown")
    reasons = one_line("; ".join(unknown[0].reasons), longest=_WHY)
    cause = f"{noun}: {reasons};" if len(unknown) == 1 else f"{noun}; of {unknown[0].subject}: {reasons};"
    return [advice(cause, why, "says why of each,", ("fleet", "status", "--live", "--ask"), "asks now")]
