"""The beginning of ``fleet status``: agents in trouble, each with its duration, reason and next command."""

from datetime import datetime
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice, table_lines
from hermesops.cli.views.fleet import NAMED
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.views.observability.alerts import state_of
from hermesops.views.timestamps import span
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from hermesops.agents.health.fleet_status import FleetStatus
    from hermesops.agents.health.trouble import Trouble

_COLUMNS = ("user", "health", "for", "why", "next")

_WHY = 160
"""Characters of a reason: alerts and agents bring their own text."""


def lines(status: "FleetStatus") -> list[str]:
    """Agents in trouble for people, below them unknown agents with their cause; or that all are well."""
    wrong = [trouble for trouble in status.trouble if not trouble.is_unknown]
    named = (
        table_lines(_COLUMNS, [_row(trouble, status.now) for trouble in wrong[:NAMED]], "", below="next")
        if wrong
        else []
    )
    more = len(wrong) - NAMED
    listing = ("fleet", "status", "--health", "down,silent,degraded")
    shown = [
        *named,
        *([advice(f"{more} more:", listing, "names them")] if more > 0 else []),
        *(_well(status) if not wrong else []),
        *_unknown(status),
        *([f"open alerts are not known: {one_line(status.unread, longest=_WHY)}"] if status.unread else []),
    ]
    return [*shown, ""] if shown else []


def _row(trouble: "Trouble", now: datetime) -> dict[str, object]:
    names = [f"{alert.alert.name}{_state(state_of(alert))}" for alert in trouble.alerts]
    why = one_line("; ".join(trouble.reasons), longest=_WHY)
    return {
        "user": trouble.subject,
        "health": trouble.judged.judgement.condition.value if trouble.judged else "alert",
        "for": span((now - trouble.since).total_seconds()) if trouble.since else "-",
        "why": f"{', '.join(names)}: {why}" if names else why,
        "next": advice(trouble.next),
    }


def _state(state: str) -> str:
    return "" if state == "open" else f" ({state})"


def _well(status: "FleetStatus") -> list[str]:
    """Nothing is known to be wrong."""
    judgements = status.health.judgements.values()
    if not judgements:
        return []
    well = sum(judgement.condition is Condition.HEALTHY for judgement in judgements)
    if well < len(judgements):
        return [f"{well} of {counted(len(judgements), 'agent')} {'is' if well == 1 else 'are'} well"] if well else []
    resting = sum(
        instance.status is not InstanceStatus.RUNNING for cell in status.health.cells for instance in cell.instances
    )
    beside = f"; {resting} more {'is' if resting == 1 else 'are'} not meant to run" if resting else ""
    return [f"all {well} agents are well{beside}" if well > 1 else f"the agent is well{beside}"]


def _unknown(status: "FleetStatus") -> list[str]:
    """Agents of which nothing is known, with the cause that they have in common, else with that of each."""
    unknown = [trouble for trouble in status.trouble if trouble.is_unknown]
    if not unknown:
        return []
    names = ", ".join(trouble.subject for trouble in unknown[:NAMED])
    more = f" and {len(unknown) - NAMED} more" if len(unknown) > NAMED else ""
    noun = f"{counted(len(unknown), 'agent')} {'is' if len(unknown) == 1 else 'are'} unknown ({names}{more})"
    if not status.work.monitor:
        cause = f"{noun}: no monitor reads heartbeats, and no agent was asked in the last 90 s;"
        asks = (("fleet", "status", "--live", "--ask"), "asks now,", ("monitor",), "keeps watching")
        return [advice(cause, *asks)]
    why = ("fleet", "status", "--health", "unknown")
    reasons = one_line("; ".join(unknown[0].reasons), longest=_WHY)
    cause = f"{noun}: {reasons};" if len(unknown) == 1 else f"{noun}; of {unknown[0].subject}: {reasons};"
    return [advice(cause, why, "says why of each,", ("fleet", "status", "--live", "--ask"), "asks now")]
