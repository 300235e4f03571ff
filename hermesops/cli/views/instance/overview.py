"""Output of ``hermesops instance list|show``: table cells and sections."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from hermesops.cli.console import advice
from hermesops.cli.printing.fields import field_lines
from hermesops.cli.views import alerts as alerts_view
from hermesops.cli.views.instance import trends
from hermesops.errors import Hint
from hermesops.views.agents import instances
from hermesops.views.agents.instance_reports import facts, next_command
from hermesops.views.agents.model_providers import chosen
from hermesops.views.timestamps import Age
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from datetime import datetime

    from hermesops.agents.health.instance_list import ListedInstance
    from hermesops.agents.health.instance_reports import InstanceAlerts, InstanceReport, OpenWork
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.providers.choice import ProviderChoice
    from hermesops.model.recovery.backup import Backup
    from hermesops.observability.telemetry.alerts.shown_alerts import OpenAlert

COLUMNS = ("user", "health", "status", "release", "plan", "age", "region", "cell")
"""Of the list of instances."""

UNKNOWN = "unknown"

_ID = 36
"""Characters of an operation's id."""


def columns(rows: Sequence[Mapping[str, object]]) -> tuple[str, ...]:
    """Columns of the list of instances, those that every agent has before the end, which few have."""
    if not any(row["status"] == "ending" for row in rows):
        return COLUMNS
    after_plan = COLUMNS.index("plan") + 1
    return (*COLUMNS[:after_plan], "ends_at", *COLUMNS[after_plan:])


def instance_line(row: "Instance") -> dict[str, object]:
    """The table row of an instance; its status is ``ending`` while a termination is scheduled."""
    return {**instances.instance(row), **({"status": "ending"} if instances.is_ending(row) else {})}


def suspension_line(shown: Mapping[str, object]) -> dict[str, object]:
    """The fields of a suspension, with the command that ends it as text."""
    undo = shown.get("undo")
    return {**shown, "undo": advice(undo)} if isinstance(undo, Hint) else dict(shown)


def listed_row(row: "ListedInstance", now: "datetime") -> dict[str, object]:
    """The table row of an instance in a list, with ``unknown`` for an unknown release."""
    shape = {**instances.listed(row, now), **instance_line(row.instance)}
    del shape["age_s"]
    return {**shape, "release": shape["release"] or UNKNOWN, "age": Age(instances.age_s(row, now))}


def report_lines(known: "InstanceReport", now: "datetime", *, in_sections: bool) -> list[str]:
    """Render a report on an instance: in sections on a terminal, else one line for each field."""
    values, last_hour = _people(known, now), trends.lines(known.trends)
    if not in_sections:
        return [*field_lines(values), *last_hour]
    values = {name: value for name, value in values.items() if value or name not in _ONLY_IF_KNOWN}
    lines = dict(zip(values, field_lines({name: _short(name, value) for name, value in values.items()}), strict=True))
    sections = ([title, *(f"  {lines[name]}" for name in names if name in lines), ""] for title, names in _SECTIONS)
    return [*(line for section in sections for line in section), *last_hour]


_SECTIONS = (
    (
        "Agent",
        (
            *("user", "status", "suspended_at", "suspended_reason", "ends_at", "undo", "health", "reasons", "gateway"),
            *("plan", "price", "model_provider", "created_at", "last_heartbeat"),
        ),
    ),
    ("Open", ("operation", "alert")),
    ("Release and backup", ("release", "release_since", "backup")),
    ("Machine", ("machine_status", "machine_name", "address", "server_type", "region", "cell", "machine_id", "epoch")),
    ("Ids", ("instance_id", "user_id")),
)
"""Titles and fields of a report on a terminal."""

_ONLY_IF_KNOWN = frozenset({"ends_at", "reasons", "gateway", "price", "address", "server_type", "release_since"})
"""Fields without a line on a terminal where they have no value."""

_MOMENTS = frozenset({"suspended_at", "ends_at", "created_at", "last_heartbeat", "release_since"})


def _provider_line(choice: "ProviderChoice | None") -> str:
    if choice is None:
        return "the platform's"
    since = f"accepted since {choice.verified_at}" if choice.verified_at else "unknown whether the key is accepted"
    return f"{chosen(choice)['title']} of the user, {choice.model}, {since}"


def _people(known: "InstanceReport", now: "datetime") -> dict[str, object]:
    """Fields and their values, of which a person sees one line each."""
    data = {**facts(known), **instance_line(known.observation.instance)}
    data.pop("operations")
    data.pop("price_monthly")
    provider_problem = data.pop("model_provider_problem")
    problem = data.pop("machine_problem")
    suspended = suspension_line(data)
    return {
        **data,
        **suspended,
        "release": data["release"] or UNKNOWN,
        "price": f"${known.price:.2f} a month" if known.price is not None else None,
        "model_provider": f"unknown: {provider_problem}" if provider_problem else _provider_line(known.provider.choice),
        "backup": _backup_line(known.backup, now) if known.backup else "none",
        "operation": [_operation_line(work, now) for work in known.work] or "none",
        "alert": _alert_lines(known.alerts, now),
        **({"machine_status": f"{UNKNOWN}: {problem}"} if problem else {}),
    }


def _backup_line(newest: "Backup", now: "datetime") -> str:
    checked = "not checked yet" if newest.checked_at is None else newest.checked or "checked, it restores"
    age = Age((now - newest.at).total_seconds())
    why = " ".join(word[:8] if len(word) == _ID else word for word in newest.why.split())
    return f"{newest.at:%Y-%m-%d %H:%M} UTC ({age} ago), {one_line(why)}: {one_line(checked)}"


def _operation_line(work: "OpenWork", now: "datetime") -> str:
    operation = work.operation
    begun = f"{operation.kind.value.replace('_', ' ')} for {Age((now - operation.created_at).total_seconds())}"
    step = f", {one_line(operation.step)}" if operation.step else ""
    attended = "a process works on it" if work.holder else "nobody works on it"
    return advice(f"{begun}{step}; {attended}:", next_command(work))


def _alert_lines(alerts: "InstanceAlerts", now: "datetime") -> object:
    if alerts.problem:
        return f"not known: {alerts.problem}"
    return [_alert_line(alert, now) for alert in alerts.open] or "none"


def _alert_line(alert: "OpenAlert", now: "datetime") -> str:
    row = alerts_view.alert_row(alert, now)
    return advice(f"{row['severity']} {one_line(alert.alert.name)} for {row['for']}, {row['state']}:", alert.next)


def _short(name: str, value: object) -> object:
    """Cut the seconds from a field that is a moment; other fields stay."""
    return f"{str(value)[:10]} {str(value)[11:16]}Z" if name in _MOMENTS and value else value
