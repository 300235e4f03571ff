"""Output of ``hermesops fleet`` and ``hermesops registry rebuild``: shapes for programs, lines for people."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.printing import terminal
from hermesops.cli.views.alerts import span
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally, LowOnDisk
from hermesops.model.plan import GB
from hermesops.views import shapes
from hermesops.views.shapes import timestamp
from hermesops.wire.foreign_text import one_line, quoted, unbroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.agents.cells.cost.costs import Costs
    from hermesops.agents.drift.finding import Finding
    from hermesops.agents.drift.history.changes import Happening
    from hermesops.agents.drift.lost_registry.rebuild import Rebuild
    from hermesops.agents.health.fleet import FleetHealth, JudgedInstance
    from hermesops.errors import Hint
    from hermesops.machines.converge import Converged
    from hermesops.model.fleet.instance import Instance
    from hermesops.model.fleet.overview import RecordedInstance
    from hermesops.model.operation import BackgroundWork, Operation
    from hermesops.model.recovery.backup import Loss
    from hermesops.model.rollout.records import Freeze
    from hermesops.observability.telemetry.top import Top
    from hermesops.users.billing.model_usage import UsageSum

STATUS_SIGNS = {
    InstanceStatus.PROVISIONING: "P",
    InstanceStatus.SUSPENDED: "S",
    InstanceStatus.TERMINATED: "T",
}
"""Signs in the grid of instances that should not run, or not yet."""

SIGNS = {
    Condition.HEALTHY: ".",
    Condition.DEGRADED: "D",
    Condition.DOWN: "X",
    Condition.SILENT: "-",
    Condition.UNKNOWN: "?",
}
"""Signs of those that should; the one hoped for is small, so that others stand out."""

_WIDTH = 80
"""Signs in a line of the grid, where the terminal has room for so many."""

_NAMED = 10
"""Instances named in lines for people; JSON names all."""


def status(health: "FleetHealth") -> dict[str, object]:
    """The fleet in numbers."""
    statuses, plans = _sums(health.cells)
    return {
        "instances": statuses.total(),
        "by_status": dict(sorted(statuses.items())),
        "by_plan": dict(sorted(plans.items())),
        "by_health": _by_health(health, health.cells),
        "unassigned": _unassigned(health.cells),
        "cells": [
            {
                "cell": cell.cell,
                "region": cell.region,
                "instances": len(cell.instances),
                "by_status": _counts([cell], lambda one: one.status),
                "by_plan": _counts([cell], lambda one: one.plan),
                "by_health": _by_health(health, [cell]),
                "unassigned": _unassigned([cell]),
                "grid": _signs(health, cell),
            }
            for cell in health.cells
        ],
    }


def grid(health: "FleetHealth") -> list[str]:
    """The fleet for people, with the sums: a line a cell, a sign an instance; a few instances have a line each."""
    statuses, plans = _sums(health.cells)
    unassigned = _unassigned(health.cells)
    if not statuses and not unassigned:
        return [advice("no instances;", ("provision", "USER", "--plan", "light"), "makes one")]
    width = max(len(cell.cell) for cell in health.cells)
    is_small = statuses.total() <= _NAMED
    rows = _spelled if is_small else _rows
    lines = [line for cell in health.cells for line in rows(health, cell, width)]
    others = ", ".join(f"{count} {status} ({of})" for of, by in unassigned.items() for status, count in by.items())
    held = f"{counted(statuses.total(), 'instance')} in {counted(len(health.cells), 'cell')}"
    total = f"{held}: {_sum_words(statuses)}; {_sum_words(plans)}"
    return [
        *lines,
        "",
        total if is_small else f"{total}   ({_legend(health)})",
        *([f"machines beside them: {others}"] if others else []),
    ]


def judged(health: "FleetHealth", instances: "Sequence[JudgedInstance]") -> dict[str, object]:
    """The time of the vendor's last listing, and the chosen instances with the reasons of their judgements."""
    return {"machines_listed_at": timestamp(health.listed_at), "instances": judged_rows(instances)}


JUDGED = ("user", "cell", "plan", "health", "reasons")
"""Columns of the table of judged instances."""


def judged_rows(instances: "Sequence[JudgedInstance]") -> list[dict[str, object]]:
    """Instances with the reasons of their judgements."""
    return [
        {
            "user": one.instance.user,
            "instance_id": one.instance.id,
            "cell": one.cell,
            "plan": one.instance.plan.value,
            "health": one.judgement.condition.value,
            "reasons": list(one.judgement.reasons),
        }
        for one in instances
    ]


def judged_table(instances: "Sequence[JudgedInstance]") -> list[dict[str, object]]:
    """Rows of judged instances for people."""
    return [
        {**row, "reasons": "; ".join(one.judgement.reasons)}
        for row, one in zip(judged_rows(instances), instances, strict=True)
    ]


def health_lines(health: "FleetHealth") -> list[str]:
    """How many are in which condition, and how old the vendor's word is; nothing where nothing should run."""
    if not health.judgements:
        return []
    counts = _by_health(health, health.cells)
    words = ", ".join(f"{counts[condition]} {condition}" for condition in Condition if condition in counts)
    listed = f"{_LISTED} {health.listed_at:%Y-%m-%d %H:%M} UTC" if health.listed_at else _UNLISTED
    return [f"health: {words}; {listed}"]


def at_once_lines(health: "FleetHealth", silent_share: float) -> list[str]:
    """The next step where so many agents are silent or down that one cause outside of their machines is likely.

    Args:
        silent_share: The setting ``monitoring.silent_share``.
    """
    counts = _by_health(health, health.cells)
    silent, down = (counts.get(condition, 0) for condition in (Condition.SILENT, Condition.DOWN))
    if not silent and not down:
        return []
    from hermesops.automation.monitor.decide import most_silent

    most, lines = most_silent(silent_share, sum(counts.values())), list[str]()
    if silent > most:
        shows = (("platform", "show"), "shows what takes their heartbeats in,", ("doctor",), "who else answers")
        lines.append(advice(f"{silent} silent at once, so rather by one cause than by their own:", *shows))
    if down > most:
        changes = ("fleet", "changes")
        lines.append(advice(f"{down} down at once, so rather by one cause:", changes, "shows what changed before"))
    return lines


_LISTED, _UNLISTED = "JustAVPS listed its machines at", "JustAVPS was never asked for its machines"

TOP_COLUMNS = ("user", "cell", "plan", "memory", "restarts", "errors", "turn", "disk")
"""Of the table of the worst or busiest instances."""


def top_rows(top: "Top") -> list[dict[str, object]]:
    """The worst or busiest instances: bytes, counts of the last hour, seconds, share of the disk; ``null`` unknown."""
    from hermesops.observability.telemetry.figures import TOP

    return [
        {
            "user": one.instance.user,
            "instance_id": one.instance.id,
            "cell": one.cell,
            "plan": one.instance.plan.value,
            **{figure.value: one.figures.get(figure) for figure in TOP},
        }
        for one in top.instances
    ]


def top_table(top: "Top") -> list[dict[str, object]]:
    """Rows of the worst or busiest instances for people."""
    from hermesops.observability.telemetry.figures import TOP, text

    return [
        {**row, **{figure.value: text(figure, one.figures.get(figure)) for figure in TOP}}
        for row, one in zip(top_rows(top), top.instances, strict=True)
    ]


def top_notes(top: "Top") -> list[str]:
    """Agents and figures that are not known."""
    lines = list(top.problems)
    if top.without:
        named = ", ".join(top.without[:_NAMED]) + (" …" if len(top.without) > _NAMED else "")
        lines.append(f"without a figure of {top.by}: {counted(len(top.without), 'running agent')}, {named}")
    return lines


def loss(backups: "Loss") -> dict[str, object]:
    """Age of unsaved changes, and how many agents have no recent backup."""
    return {
        "agents": backups.agents,
        "oldest_s": backups.oldest_s,
        "late": backups.late,
        "never": backups.never,
        "objective_s": backups.objective_s,
    }


def loss_lines(backups: "Loss") -> list[str]:
    """Lines about backups for people."""
    if not backups.agents:
        return []
    have = "has" if backups.never == 1 else "have"
    none = f"; {backups.never} of {counted(backups.agents, 'agent')} {have} no backup yet" if backups.never else ""
    line = f"backups: the oldest unsaved change is {span(backups.oldest_s)} old{none}"
    if not backups.late:
        return [line]
    have = "has" if backups.late == 1 else "have"
    late = f"{backups.late} of {counted(backups.agents, 'agent')} {have} no backup of the last"
    todo = ("runbook", "run", "backups-are-late")
    names = (("backup", "list"), "names them,", todo, "leads to their backups")
    return [line, advice(f"backups: {late} {backups.objective_s // 3600} h:", *names)]


def accepted_size(user: str, before: str, now: str) -> str:
    """The size of an agent's machine, once it was accepted."""
    return f"{user} has a {now}, " + ("as ordered" if before == now else f"ordered as {before} before")


def freeze_lines(freezes: "Sequence[Freeze]") -> list[str]:
    """Freezes that hold now, which are easily forgotten."""
    return [
        advice(
            f"rollouts are frozen {f'until {one.ends_at:%Y-%m-%d %H:%M} UTC' if one.ends_at else 'without an end'}"
            f" by {one_line(one.who)}, {quoted(one.reason)}:",
            ("rollout", "unfreeze", one.id),
            "ends that",
        )
        for one in freezes
    ]


def crowded(agents: Sequence[LowOnDisk]) -> list[dict[str, object]]:
    """Agents that are low on disk."""
    return [{"user": one.user, "plan": one.plan.value, "bytes": one.bytes, "size": one.size} for one in agents]


def crowded_lines(agents: Sequence[LowOnDisk]) -> list[str]:
    """Lines about agents that are low on disk, for people."""
    lines = [
        advice(
            f"data: {one.user} has {one.bytes / GB:.1f} of {one.size / GB:.0f} GB full, by the newest backup;",
            ("instance", "resize", one.user, "--plan", "heavy"),
            ", or the user deletes some: runbooks/data-volume.md",
        )
        for one in agents[:_NAMED]
    ]
    more = len(agents) - _NAMED
    return [*lines, *([f"data: {more} more are as full"] if more > 0 else [])]


def ending(agents: "Sequence[Instance]") -> list[dict[str, object]]:
    """Agents whose termination is scheduled."""
    return [{"user": one.title, "ends_at": timestamp(one.grace_until)} for one in agents]


def ending_lines(agents: "Sequence[Instance]") -> list[str]:
    """Lines about scheduled terminations for people."""
    lines = [
        advice(
            f"ending: {one.title} is terminated at {one.grace_until:%Y-%m-%d %H:%M} UTC;",
            ("instance", "terminate", one.title, "--undo"),
            "cancels that",
        )
        for one in agents[:_NAMED]
    ]
    more = len(agents) - _NAMED
    listing = ("instance", "list", "--status", "suspended")
    return [*lines, *([advice(f"ending: {more} more;", listing, "names them")] if more > 0 else [])]


def operations(stopped: "Sequence[Operation]", at_work: int) -> dict[str, object]:
    """Operations that have not ended: those that nobody works on, and how many others there are."""
    return {"operations": {"at_work": at_work, "stopped": [shapes.operation(one) for one in stopped]}}


def operation_lines(stopped: "Sequence[Operation]", at_work: int) -> list[str]:
    """Lines about unfinished operations for people; none where all have ended."""
    lines = [
        advice(
            f"operation: {one_line(one.kind.replace('_', ' '))} of {whose(one)}, since "
            f"{one.created_at:%Y-%m-%d %H:%M} UTC, has not ended and nobody works on it:",
            ("operation", "continue", one.id),
            "continues it",
        )
        for one in stopped[:_NAMED]
    ]
    more = len(stopped) - _NAMED
    lines += [advice(f"{more} more:", ("operation", "list"), "names them")] if more > 0 else []
    if at_work:
        noun = "operation is" if at_work == 1 else "operations are"
        lines.append(advice(f"{at_work} {noun} being worked on:", ("operation", "list"), "shows them"))
    return lines


def whose(operation: "Operation") -> str:
    """The user, cell or rollout that an operation is about, else its subject."""
    named = (operation.intent.get(field) for field in ("user", "cell", "rollout"))
    return one_line(str(next((name for name in named if name), operation.subject)))


MONITOR_MAY = {
    "none": "only reports",
    "restart": "may reboot dead machines",
    "all": "may reboot dead machines, and replace those that stay dead",
}
"""What the monitor does by itself, by the setting monitoring.actions."""

_BACKUPS_REST = timedelta(minutes=15)
"""Where backups are late, workers run their job more often."""


def background(work: "BackgroundWork", actions: str) -> dict[str, object]:
    """Whether workers and a monitor are there, and what the monitor may do."""
    return {
        "monitor": {"acts": work.monitor or None, "actions": actions, "may": MONITOR_MAY[actions]},
        "workers": {
            "waiting": work.waiting,
            "waiting_since": timestamp(work.waiting_since),
            "at_work": work.is_attended,
            "backups_at": timestamp(work.backups_at),
        },
    }


def background_lines(work: "BackgroundWork", actions: str, backups: "Loss | None", now: datetime) -> list[str]:
    """Lines for people: one about the monitor, and one about workers where none seems to run."""
    may = f"{MONITOR_MAY[actions]} (monitoring.actions {actions})"
    if work.monitor:
        line = f"monitor: {unbroken(work.monitor.partition(':')[0])} acts; it {may}"
    else:
        line = advice(
            "monitor: none runs, so that nobody repairs dead machines;", ("monitor",), f"starts one; it {may}"
        )
    return [line, *_worker_lines(work, backups, now)]


def _worker_lines(work: "BackgroundWork", backups: "Loss | None", now: datetime) -> list[str]:
    since = work.waiting_since
    if since and not work.is_attended:
        noun = "operation waits" if work.waiting == 1 else "operations wait"
        line = f"workers: none seems to run: {work.waiting} {noun}, since {since:%Y-%m-%d %H:%M} UTC;"
        return [advice(line, ("operation", "list"), "names them,", ("worker",), "runs them")]
    if backups and backups.late and (work.backups_at is None or now - work.backups_at > _BACKUPS_REST):
        last = f"since {work.backups_at:%Y-%m-%d %H:%M} UTC" if work.backups_at else "ever"
        late = f"{counted(backups.late, 'backup')} {'is' if backups.late == 1 else 'are'} late"
        line = f"workers: none seems to run: {late}, and no process began the job {last};"
        return [advice(line, ("job", "list"), "shows all,", ("worker",), "runs them")]
    return []


def cost(costs: "Costs") -> dict[str, object]:
    """Monthly cost of machines by the registry's rows, and by JustAVPS."""
    return {
        "cells": [{"cell": cell, **shapes.bill(bill)} for cell, bill in costs.cells.items()],
        "plans": [{"plan": plan, **shapes.bill(bill)} for plan, bill in costs.plans.items()],
        "platform": shapes.bill(costs.platform),
        "without_row": shapes.bill(costs.without_row),
        "estimated": shapes.bill(costs.total),
        "actual": {
            "monthly": None if costs.actual is None else f"{costs.actual:.2f}",
            "machines": costs.rented,
        },
        "difference": None if costs.difference is None else f"{costs.difference:.2f}",
    }


def cost_lines(costs: "Costs") -> list[str]:
    """Lines about the monthly cost for people."""
    width = max((len(name) for name in (*costs.cells, *costs.plans, "without a row")), default=0)
    beside = {"platform": costs.platform} if costs.platform else {}
    lines = [f"{name:<{width}}  {bill}" for bills in (costs.cells, costs.plans, beside) for name, bill in bills.items()]
    actual = "not known" if costs.actual is None else f"${costs.actual:.2f} for {costs.rented} machines"
    lines += [f"{'estimated':<{width}}  {costs.total}", f"{'JustAVPS':<{width}}  {actual}"]
    drift = ("fleet", "drift")
    if costs.without_row:
        lines.append(advice(f"{'without a row':<{width}}  {costs.without_row};", drift, "names them"))
    if costs.difference:
        lines.append(f"{'difference':<{width}}  ${costs.difference:.2f} (JustAVPS less estimated)")
    return lines


def usage(one: "UsageSum") -> dict[str, object]:
    """Usage of models."""
    return {
        "name": one.name,
        "answers": one.answers,
        "failures": one.failures,
        "input_tokens": one.input_tokens,
        "output_tokens": one.output_tokens,
        "usd": f"{one.micros / 1_000_000:.6f}",
    }


def drift(findings: "Sequence[Finding]") -> dict[str, object]:
    """Differences, the worst first."""
    return {
        "findings": [
            {
                "kind": one.kind.value,
                "severity": one.severity.value,
                "subject": one.subject,
                "cell": one.cell or None,
                "machine": one.machine or None,
                "seen": one.seen,
                "repair": list(one.repair),
                "otherwise": list(one.otherwise),
            }
            for one in findings
        ],
        "by_severity": dict(Counter(one.severity.value for one in findings)),
    }


def drift_lines(findings: "Sequence[Finding]") -> list[str]:
    """Differences for people, each above the commands that repair it."""
    lines = []
    for one in findings:
        where = f" ({one.machine})" if one.machine and one.machine != one.subject else ""
        lines += [f"{one.severity}  {one.kind}  {one.subject}{where}", f"    {one.seen}"]
        lines += _steps(one.repair) + _steps(one.otherwise, "or ")
    counts = Counter(one.severity.value for one in findings)
    sums = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    return [*lines, f"{counted(len(findings), 'difference')}: {sums}"] if findings else ["nothing differs"]


def _steps(commands: "Sequence[Hint]", lead: str = "") -> list[str]:
    """Commands as people type them; more than one are numbered: each is of use only after those before it."""
    if len(commands) == 1:
        return [f"    {lead}$ {advice(commands[0])}"]
    return [f"    {lead}{number}. $ {advice(command)}" for number, command in enumerate(commands, 1)]


def converged(ran: "Converged") -> list[dict[str, object]]:
    """Result of the roles for each instance."""
    return [
        {
            "instance": host.host,
            "status": host.status,
            "changed": len(host.changed),
            "failure": f"{host.failure.task}: {host.failure.message}" if host.failure else None,
        }
        for host in ran.hosts.values()
    ]


def changes(found: "Sequence[Happening]") -> list[dict[str, object]]:
    """Events, oldest first; ``who`` is null for a change that was only observed."""
    return [
        {
            "at": timestamp(one.at),
            "who": one.who or None,
            "what": one.what,
            "subject": one.subject,
            "detail": one.detail,
        }
        for one in found
    ]


def rebuild(planned: "Rebuild", *, written: int) -> dict[str, object]:
    """Instances that a lost registry holds again, and records that stay lost; no secret is in it."""
    return {
        "instances": [
            {
                "instance_id": one.id,
                "user": one.user_alias or one.user_id,
                "plan": one.plan.value,
                "cell": one.cell,
                "machine_name": one.machine_name,
                "machine_id": one.machine_id,
                "epoch": one.epoch,
            }
            for one in planned.instances
        ],
        "left": [{"name": one.name, "why": one.why, "hint": one.hint} for one in planned.left],
        "gone": list(planned.gone),
        "written": written,
    }


def rebuild_lines(planned: "Rebuild") -> list[str]:
    """Lines about a rebuilt registry for people."""
    known = [
        f"  {one.user_alias or one.user_id}  {one.plan}  {one.cell}  {one.machine_name}" for one in planned.instances
    ]
    left = [line for one in planned.left for line in (f"  {one.name}: {one.why}", f"    $ {advice(one.hint)}")]
    return [
        f"known again: {counted(len(known), 'instance')}",
        *known,
        f"not known: {counted(len(planned.left), 'item')}",
        *left,
        *(["gone in any case:", *(f"  {what}" for what in planned.gone)] if planned.gone else []),
    ]


def _sums(cells: Sequence[CellTally]) -> tuple[Counter[str], Counter[str]]:
    return Counter(_counts(cells, lambda one: one.status)), Counter(_counts(cells, lambda one: one.plan))


def _counts(cells: Sequence[CellTally], kind: "Callable[[RecordedInstance], str]") -> dict[str, int]:
    """How many instances are of each kind, by its name."""
    counted = Counter(kind(one) for cell in cells for one in cell.instances)
    return {str(name): counted[name] for name in sorted(counted)}


def _by_health(health: "FleetHealth", cells: Sequence[CellTally]) -> dict[str, int]:
    """How many of the instances that should run are in each condition, without zeros."""
    conditions = (
        health.judgements[one.id].condition for c in cells for one in c.instances if one.id in health.judgements
    )
    return {condition.value: count for condition, count in sorted(Counter(conditions).items())}


def _sum_words(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _unassigned(cells: Sequence[CellTally]) -> dict[str, dict[str, int]]:
    """Machines beside those of instances, by role and status."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for (role, status), count in cell.unassigned.items():
            found.setdefault(role.value, Counter())[status.value] += count
    return {role: dict(sorted(found[role].items())) for role in sorted(found)}


def _rows(health: "FleetHealth", cell: CellTally, width: int) -> list[str]:
    signs = _signs(health, cell)
    head = f"{cell.cell:<{width}}  {len(signs):>4}  "
    most = min(_WIDTH, max(1, (terminal.width() or len(head) + _WIDTH) - len(head)))
    pieces = [signs[start : start + most] for start in range(0, len(signs), most)] or [""]
    return [f"{head if number == 0 else ' ' * len(head)}{piece}".rstrip() for number, piece in enumerate(pieces)]


def _spelled(health: "FleetHealth", cell: CellTally, width: int) -> list[str]:
    return [f"{cell.cell:<{width}}  {unbroken(one.user)}  {_state(health, one)}" for one in cell.instances]


def _state(health: "FleetHealth", one: "RecordedInstance") -> str:
    """In which condition an instance is that should run, else its status."""
    judgement = health.judgements.get(one.id)
    return judgement.condition.value if judgement else one.status.value


def _signs(health: "FleetHealth", cell: CellTally) -> str:
    return "".join(
        SIGNS[judgement.condition] if (judgement := health.judgements.get(one.id)) else STATUS_SIGNS[one.status]
        for one in cell.instances
    )


def _legend(health: "FleetHealth") -> str:
    conditions, statuses = _by_health(health, health.cells), _counts(health.cells, lambda one: one.status)
    signs = [f"{sign} {condition}" for condition, sign in SIGNS.items() if condition in conditions]
    return ", ".join([*signs, *(f"{sign} {status}" for status, sign in STATUS_SIGNS.items() if status in statuses)])
