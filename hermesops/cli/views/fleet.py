"""What ``hermesops fleet`` and ``hermesops registry rebuild`` print: shapes for programs, lines for people."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.cli.console import advice
from hermesops.cli.views import shapes
from hermesops.cli.views.shapes import timestamp
from hermesops.errors import Hint
from hermesops.model.fleet import CellTally, LowOnDisk
from hermesops.model.instance import InstanceStatus
from hermesops.model.plan import GB

if TYPE_CHECKING:
    from hermesops.app.services.costs import Costs
    from hermesops.converge import Converged
    from hermesops.drift.changes import Happening
    from hermesops.drift.finding import Finding
    from hermesops.drift.rebuild import Rebuild
    from hermesops.model.backup import Loss
    from hermesops.model.fleet import Confirmation

SIGNS = {
    InstanceStatus.RUNNING: ".",
    InstanceStatus.PROVISIONING: "P",
    InstanceStatus.SUSPENDED: "S",
    InstanceStatus.TERMINATED: "T",
}
"""Signs of instances in the grid; the usual one is small, so that others stand out."""

_WIDTH = 80
"""Signs in a line of the grid."""

_NAMED = 10
"""Instances named in lines for people; JSON names all."""

_ASK = Hint(("fleet", "status", "--live"), "asks")


def status(cells: Sequence[CellTally]) -> dict[str, object]:
    """The fleet in numbers."""
    statuses, plans = _sums(cells)
    return {
        "instances": statuses.total(),
        "by_status": dict(sorted(statuses.items())),
        "by_plan": dict(sorted(plans.items())),
        "unassigned": _unassigned(cells),
        "cells": [
            {
                "cell": cell.cell,
                "region": cell.region,
                "instances": len(cell.grid),
                "by_status": {status.value: count for status, count in cell.by_status.items()},
                "by_plan": {plan.value: count for plan, count in sorted(cell.by_plan.items())},
                "unassigned": _unassigned([cell]),
                "grid": _signs(cell),
            }
            for cell in cells
        ],
    }


def grid(cells: Sequence[CellTally], *, confirmed: int) -> list[str]:
    """The fleet for people: a line a cell, a sign an instance, and the sums; ``confirmed`` counts ready machines."""
    statuses, plans = _sums(cells)
    unassigned = _unassigned(cells)
    if not statuses and not unassigned:
        return [advice("no instances;", ("provision", "USER", "--plan", "light"), "makes one")]
    width = max(len(cell.cell) for cell in cells)
    lines = [line for cell in cells for line in _rows(cell, width)]
    legend = ", ".join(f"{SIGNS[status]} {status}" for status in InstanceStatus if statuses[status])
    beside = {InstanceStatus.RUNNING.value: f" ({confirmed} confirmed)"}
    by_status = ", ".join(f"{count} {name}{beside.get(name, '')}" for name, count in sorted(statuses.items()))
    sums = f"{by_status}; {', '.join(f'{count} {name}' for name, count in sorted(plans.items()))}"
    total = f"{statuses.total()} instances in {len(cells)} cells: {sums}   ({legend})"
    others = ", ".join(f"{count} {status} ({of})" for of, by in unassigned.items() for status, count in by.items())
    return [*lines, "", total, *([f"machines beside them: {others}"] if others else [])]


def confirmation(machines: "Confirmation") -> dict[str, object]:
    """What JustAVPS said last of the machines of running instances."""
    return {
        "listed_at": timestamp(machines.listed_at) if machines.listed_at else None,
        "confirmed": machines.confirmed,
        "unconfirmed": [
            {"user": one.user, "machine": one.machine, "status": one.status or None} for one in machines.unconfirmed
        ],
    }


def confirmation_lines(machines: "Confirmation", cells: Sequence[CellTally]) -> list[str]:
    """The same for people; nothing where nothing should run."""
    running = _sums(cells)[0][InstanceStatus.RUNNING]
    if not running:
        return []
    if machines.listed_at is None:
        return [advice(f"machines: none of {running} running is confirmed, JustAVPS was not asked yet:", _ASK)]
    at = f"{machines.listed_at:%Y-%m-%d %H:%M} UTC"
    line = f"machines: {machines.confirmed} of {running} running were ready at {at}, when JustAVPS was last asked"
    if not machines.unconfirmed:
        return [line]
    named = [
        f"not confirmed: {one.user}, {f'machine {one.status}' if one.status else 'on a machine that is newer'}"
        for one in machines.unconfirmed[:_NAMED]
    ]
    more = len(machines.unconfirmed) - _NAMED
    rest = [f"not confirmed: {more} more"] if more > 0 else []
    return [line, *named, *rest, advice(_ASK, ";", ("fleet", "drift"), "says what to do")]


def loss(backups: "Loss") -> dict[str, object]:
    """What would be lost with all machines now, and how many agents would lose more than may be."""
    return {
        "agents": backups.agents,
        "oldest_s": backups.oldest_s,
        "late": backups.late,
        "never": backups.never,
        "objective_s": backups.objective_s,
    }


def loss_lines(backups: "Loss") -> list[str]:
    """The same for people."""
    if not backups.agents:
        return []
    hours, minutes = backups.oldest_s // 3600, backups.oldest_s // 60 % 60
    none = f"; {backups.never} have none yet" if backups.never else ""
    line = f"backups: at most {hours} h {minutes} min of what agents know would be lost with their machines{none}"
    if not backups.late:
        return [line]
    late = f"{backups.late} of {backups.agents} agents have none of the last {backups.objective_s // 3600} h"
    todo = ("runbook", "run", "backups-are-late")
    return [line, advice(f"{late}:", ("backup", "list"), "names them,", todo, "leads to their backups")]


def crowded(agents: Sequence[LowOnDisk]) -> list[dict[str, object]]:
    """Agents that are low on disk."""
    return [{"user": one.user, "plan": one.plan.value, "bytes": one.bytes, "size": one.size} for one in agents]


def crowded_lines(agents: Sequence[LowOnDisk]) -> list[str]:
    """The same for people."""
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


def cost(costs: "Costs") -> dict[str, object]:
    """What the machines cost by the registry's rows, and what JustAVPS says."""
    return {
        "cells": [{"cell": cell, **shapes.bill(bill)} for cell, bill in costs.cells.items()],
        "plans": [{"plan": plan, **shapes.bill(bill)} for plan, bill in costs.plans.items()],
        "estimated": shapes.bill(costs.total),
        "actual": {
            "monthly": None if costs.actual is None else f"{costs.actual:.2f}",
            "machines": costs.rented,
        },
        "difference": None if costs.difference is None else f"{costs.difference:.2f}",
    }


def cost_lines(costs: "Costs") -> list[str]:
    """The same for people."""
    width = max((len(name) for name in (*costs.cells, *costs.plans, "estimated")), default=0)
    lines = [f"{name:<{width}}  {bill}" for bill_of in (costs.cells, costs.plans) for name, bill in bill_of.items()]
    actual = "not known" if costs.actual is None else f"${costs.actual:.2f} for {costs.rented} machines"
    lines += [f"{'estimated':<{width}}  {costs.total}", f"{'JustAVPS':<{width}}  {actual}"]
    if costs.difference:
        lines.append(
            advice(f"{'difference':<{width}}  ${costs.difference:.2f};", ("fleet", "drift"), "finds what is extra")
        )
    return lines


def drift(findings: "Sequence[Finding]") -> dict[str, object]:
    """What differs, the worst first."""
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
    """The same for people: what differs, and below it what to type."""
    lines = []
    for one in findings:
        where = f" ({one.machine})" if one.machine and one.machine != one.subject else ""
        lines += [f"{one.severity}  {one.kind}  {one.subject}{where}", f"    {one.seen}"]
        lines += _steps(one.repair) + _steps(one.otherwise, "or ")
    counts = Counter(one.severity.value for one in findings)
    sums = ", ".join(f"{count} {severity}" for severity, count in counts.items())
    return [*lines, f"{len(findings)} differences: {sums}"] if findings else ["nothing differs"]


def _steps(commands: "Sequence[Hint]", lead: str = "") -> list[str]:
    """Commands as people type them; more than one are numbered: each is of use only after those before it."""
    if len(commands) == 1:
        return [f"    {lead}$ {advice(commands[0])}"]
    return [f"    {lead}{number}. $ {advice(command)}" for number, command in enumerate(commands, 1)]


def converged(ran: "Converged") -> list[dict[str, object]]:
    """What became of each instance that roles were applied to."""
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
    """What happened, oldest first; ``who`` is null for a change that was only observed."""
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
    """What a lost registry holds again, and what stays lost; no secret has a shape."""
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
    """The same for people."""
    known = [
        f"  {one.user_alias or one.user_id}  {one.plan}  {one.cell}  {one.machine_name}" for one in planned.instances
    ]
    left = [line for one in planned.left for line in (f"  {one.name}: {one.why}", f"    $ {advice(one.hint)}")]
    return [
        f"{len(known)} instances are known again:",
        *known,
        f"{len(planned.left)} things are not:",
        *left,
        "gone in any case:",
        *(f"  {what}" for what in planned.gone),
    ]


def _sums(cells: Sequence[CellTally]) -> tuple[Counter[str], Counter[str]]:
    statuses: Counter[str] = Counter()
    plans: Counter[str] = Counter()
    for cell in cells:
        statuses.update(status.value for status in cell.grid)
        plans.update({plan.value: count for plan, count in cell.by_plan.items()})
    return statuses, plans


def _unassigned(cells: Sequence[CellTally]) -> dict[str, dict[str, int]]:
    """Machines beside those of instances, by role and status."""
    found: dict[str, Counter[str]] = {}
    for cell in cells:
        for (role, status), count in cell.unassigned.items():
            found.setdefault(role.value, Counter())[status.value] += count
    return {role: dict(sorted(found[role].items())) for role in sorted(found)}


def _rows(cell: CellTally, width: int) -> list[str]:
    signs = _signs(cell)
    head = f"{cell.cell:<{width}}  {len(signs):>4}  "
    pieces = [signs[start : start + _WIDTH] for start in range(0, len(signs), _WIDTH)] or [""]
    return [f"{head if number == 0 else ' ' * len(head)}{piece}".rstrip() for number, piece in enumerate(pieces)]


def _signs(cell: CellTally) -> str:
    return "".join(SIGNS[status] for status in cell.grid)
