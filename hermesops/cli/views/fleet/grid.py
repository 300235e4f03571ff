"""The fleet in numbers: counts for programs, a grid of signs for people."""

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.printing import terminal
from hermesops.cli.views.fleet import NAMED
from hermesops.model.fleet.health import Condition
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import CellTally
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.agents.health.fleet import FleetHealth
    from hermesops.model.fleet.overview import RecordedInstance


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


def status(health: "FleetHealth") -> dict[str, object]:
    """The JSON object of the fleet: counts by status, plan and health, and a grid for each cell."""
    statuses, plans = _sums(health.cells)
    return {
        "instances": statuses.total(),
        "by_status": dict(sorted(statuses.items())),
        "by_plan": dict(sorted(plans.items())),
        "by_health": by_health(health, health.cells),
        "unassigned": _unassigned(health.cells),
        "cells": [
            {
                "cell": cell.cell,
                "region": cell.region,
                "instances": len(cell.instances),
                "by_status": _counts([cell], lambda instance: instance.status),
                "by_plan": _counts([cell], lambda instance: instance.plan),
                "by_health": by_health(health, [cell]),
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
    is_small = statuses.total() <= NAMED
    rows = _spelled if is_small else _rows
    lines = [line for cell in health.cells for line in rows(health, cell, width)]
    others = ", ".join(f"{count} {status} ({of})" for of, by in unassigned.items() for status, count in by.items())
    size = f"{counted(statuses.total(), 'instance')} in {counted(len(health.cells), 'cell')}"
    total = f"{size}: {_sum_words(statuses)}; {_sum_words(plans)}"
    return [
        *lines,
        "",
        total if is_small else f"{total}   ({_legend(health)})",
        *([f"machines without an instance: {others}"] if others else []),
    ]


def _sums(cells: Sequence[CellTally]) -> tuple[Counter[str], Counter[str]]:
    return Counter(_counts(cells, lambda instance: instance.status)), Counter(
        _counts(cells, lambda instance: instance.plan)
    )


def _counts(cells: Sequence[CellTally], kind: "Callable[[RecordedInstance], str]") -> dict[str, int]:
    """Count instances of each kind, by the kind's name."""
    counts = Counter(kind(instance) for cell in cells for instance in cell.instances)
    return {str(name): counts[name] for name in sorted(counts)}


def by_health(health: "FleetHealth", cells: Sequence[CellTally]) -> dict[str, int]:
    """Count instances that should run, by condition; conditions without instances are left out."""
    conditions = (
        health.judgements[instance.id].condition
        for c in cells
        for instance in c.instances
        if instance.id in health.judgements
    )
    return {condition.value: count for condition, count in sorted(Counter(conditions).items())}


def _sum_words(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _unassigned(cells: Sequence[CellTally]) -> dict[str, dict[str, int]]:
    """Machines beside those of instances, by role and status."""
    by_role: dict[str, Counter[str]] = {}
    for cell in cells:
        for (role, status), count in cell.unassigned.items():
            by_role.setdefault(role.value, Counter())[status.value] += count
    return {role: dict(sorted(by_role[role].items())) for role in sorted(by_role)}


def _rows(health: "FleetHealth", cell: CellTally, width: int) -> list[str]:
    signs = _signs(health, cell)
    head = f"{cell.cell:<{width}}  {len(signs):>4}  "
    most = min(_WIDTH, max(1, (terminal.width() or len(head) + _WIDTH) - len(head)))
    pieces = [signs[start : start + most] for start in range(0, len(signs), most)] or [""]
    return [f"{head if number == 0 else ' ' * len(head)}{piece}".rstrip() for number, piece in enumerate(pieces)]


def _spelled(health: "FleetHealth", cell: CellTally, width: int) -> list[str]:
    return [
        f"{cell.cell:<{width}}  {unbroken(instance.user)}  {_state(health, instance)}" for instance in cell.instances
    ]


def _state(health: "FleetHealth", instance: "RecordedInstance") -> str:
    """In which condition an instance is that should run, else its status."""
    judgement = health.judgements.get(instance.id)
    return judgement.condition.value if judgement else instance.status.value


def _signs(health: "FleetHealth", cell: CellTally) -> str:
    return "".join(
        SIGNS[judgement.condition]
        if (judgement := health.judgements.get(instance.id))
        else STATUS_SIGNS[instance.status]
        for instance in cell.instances
    )


def _legend(health: "FleetHealth") -> str:
    conditions, statuses = by_health(health, health.cells), _counts(health.cells, lambda instance: instance.status)
    signs = [f"{sign} {condition}" for condition, sign in SIGNS.items() if condition in conditions]
    return ", ".join([*signs, *(f"{sign} {status}" for status, sign in STATUS_SIGNS.items() if status in statuses)])
