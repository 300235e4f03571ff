"""Selects findings by ``--where``. Pure.

Findings are narrowed, never the snapshot: without the rows of all cells, machines of the others would look orphaned.
"""

from collections.abc import Iterable, Sequence

from hermesops.drift.finding import Finding
from hermesops.drift.fleet_snapshot import FleetSnapshot
from hermesops.justavps.wire import Machine
from hermesops.model.fleet import Ordered
from hermesops.model.ids import cell_in_name
from hermesops.model.selector import Selector

FIELDS = frozenset({"cell", "plan", "status", "user"})
"""What can be selected by."""


def machines_asked(snapshot: FleetSnapshot, selector: Selector) -> list[tuple[Ordered | None, Machine]]:
    """The machines to ask: those of the selected instances, and orphans of their cells."""
    rows = [row for row in snapshot.rows if _is_meant(row, selector)]
    of_rows = [(row, machine) for row in rows if (machine := snapshot.machine_of(row))]
    orphans = [m for m in snapshot.orphans if selector.takes({"cell": cell_in_name(m.name) or ""})]
    return [*of_rows, *((None, orphan) for orphan in orphans)]


def narrowed(findings: Iterable[Finding], rows: Sequence[Ordered], selector: Selector) -> tuple[Finding, ...]:
    """The findings about what is selected; those about no instance are selected by their cell."""
    of_machine: dict[str, Ordered] = {row.instance.machine_name: row for row in rows}

    def is_meant(finding: Finding) -> bool:
        row = of_machine.get(finding.machine)
        return _is_meant(row, selector) if row else selector.takes({"cell": finding.cell})

    return tuple(finding for finding in findings if is_meant(finding))


def _is_meant(row: Ordered, selector: Selector) -> bool:
    instance = row.instance
    fields = {"cell": instance.cell, "plan": instance.plan.value, "status": instance.status.value}
    return any(selector.takes({**fields, "user": name}) for name in {instance.user_alias, instance.user_id})
