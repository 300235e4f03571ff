"""The fleet in numbers: a grid of signs."""

from collections import Counter
from typing import TYPE_CHECKING

from hermesops.base.narration import counted
from hermesops.cli.console import advice
from hermesops.cli.printing import terminal
from hermesops.cli.views.fleet import NAMED
from hermesops.model.fleet.overview import CellTally
from hermesops.views.agents import fleet
from hermesops.wire.foreign_text import unbroken

if TYPE_CHECKING:
    from hermesops.agents.health.fleet import FleetHealth
    from hermesops.model.fleet.overview import RecordedInstance


_WIDTH = 80
"""Signs in a line of the grid, where the terminal has room for so many."""


def grid(health: "FleetHealth") -> list[str]:
    """The fleet for people, with the sums: a line a cell, a sign an instance; a few instances have a line each."""
    statuses, plans = fleet.sums(health.cells)
    unassigned = fleet.unassigned(health.cells)
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


def _sum_words(counts: Counter[str]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counts.items()))


def _rows(health: "FleetHealth", cell: CellTally, width: int) -> list[str]:
    signs = fleet.signs(health, cell)
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


def _legend(health: "FleetHealth") -> str:
    conditions, statuses = (
        fleet.by_health(health, health.cells),
        fleet.counts(health.cells, lambda instance: instance.status),
    )
    signs = [f"{sign} {condition}" for condition, sign in fleet.SIGNS.items() if condition in conditions]
    return ", ".join(
        [*signs, *(f"{sign} {status}" for status, sign in fleet.STATUS_SIGNS.items() if status in statuses)]
    )
