"""Rows of ``cells``, and the desired machines of each cell."""

from typing import Any

import sqlalchemy as sa

from hermesops.errors import UsageError
from hermesops.model.fleet.cell import Cell, CellMachine, CellSpec, Placement
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import OperationKind
from hermesops.model.plan import Plan
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import (
    LIVING,
    UNFINISHED,
    cells,
    hermes_instances,
    instance_details,
    operations,
    unassigned_machines,
)

_WITH_INSTANCE = instance_details.join(hermes_instances)


class CellRepository(Repository):
    """Rows of ``cells``, and the machines that each cell's program builds."""

    def list(self) -> tuple[Cell, ...]:
        """Return all cells, sorted by name."""
        with self._database.reading() as connection:
            return cells_in(connection)

    def get(self, name: CellName) -> Cell:
        """Return the cell of that name.

        Raises:
            UsageError: No cell of that name was ever opened.
        """
        with self._database.reading() as connection:
            rows = cells_in(connection, cells.c.name == name)
            if not rows:
                raise _no_cell(connection, name)
        return rows[0]

    def open(self, place: Placement) -> None:
        """Make the cell's row unless it exists, as for a warm pool before its first user."""
        with self._database.writing() as connection:
            self.open_in(connection, place)

    def record_applied(self, name: CellName) -> None:
        """Record when the cell's stack was last applied; not audited: the operation is."""
        with self._database.writing() as connection:
            now = self._database.now(connection)
            connection.execute(cells.update().where(cells.c.name == name).values(applied_at=now))

    def spec(self, cell: CellName) -> CellSpec:
        """The machines that the cell's stack should have, by name: of instances and unassigned, not those given up.

        Raises:
            UsageError: No such cell was ever opened.
        """
        of_instances = (
            sa.select(instance_details, hermes_instances.c.plan)
            .select_from(_WITH_INSTANCE)
            .where(instance_details.c.cell == cell, instance_details.c.machine_wanted, LIVING)
        )
        unassigned = sa.select(unassigned_machines).where(
            unassigned_machines.c.cell == cell, unassigned_machines.c.wanted
        )
        with self._database.reading() as connection:
            if connection.scalar(sa.select(cells.c.name).where(cells.c.name == cell)) is None:
                raise _no_cell(connection, cell)
            machines = [
                *(_machine(row, row.machine_name) for row in connection.execute(of_instances)),
                *(_machine(row, row.name) for row in connection.execute(unassigned)),
            ]
        return CellSpec(cell, tuple(sorted(machines, key=lambda machine: machine.name)))

    def machines_to_delete(self, cell: CellName) -> frozenset[MachineName]:
        """The cell's machines that were given up (``mark_for_deletion``, ``unassigned.retire``) and may still exist."""
        of_instances = (
            sa.select(instance_details.c.machine_name)
            .select_from(_WITH_INSTANCE)
            .where(instance_details.c.cell == cell, sa.not_(instance_details.c.machine_wanted), LIVING)
        )
        unassigned = sa.select(unassigned_machines.c.name).where(
            unassigned_machines.c.cell == cell, sa.not_(unassigned_machines.c.wanted)
        )
        return frozenset(MachineName(name) for (name,) in self._rows(of_instances.union(unassigned)))

    def resized_machines(self, cell: CellName) -> frozenset[MachineName]:
        """The cell's machines that unfinished operations resize."""
        query = (
            sa.select(instance_details.c.machine_name)
            .join(operations, operations.c.instance_id == instance_details.c.instance_id)
            .where(instance_details.c.cell == cell, operations.c.kind == OperationKind.RESIZE, UNFINISHED)
        )
        return frozenset(MachineName(name) for (name,) in self._rows(query))

    def open_in(self, connection: sa.Connection, place: Placement) -> None:
        """``open`` within a transaction; others that open the same cell wait for it to end."""
        takes = {"region": place.region, "only_plan": place.only_plan}
        values = {"name": place.cell, "created_at": self._database.now(connection), **takes}
        if insert_if_absent(connection, cells, values):
            self._note(connection, "cell_opened", f"cell/{place.cell}", after=takes)


def cells_in(connection: sa.Connection, *which: sa.ColumnElement[bool]) -> tuple[Cell, ...]:
    """The cells that fulfil the conditions, by name, as the transaction sees them."""
    of_instances = (
        sa.select(sa.func.count())
        .select_from(_WITH_INSTANCE)
        .where(instance_details.c.cell == cells.c.name, LIVING)
        .scalar_subquery()
    )
    unassigned = (
        sa.select(sa.func.count())
        .select_from(unassigned_machines)
        .where(unassigned_machines.c.cell == cells.c.name)
        .scalar_subquery()
    )
    query = sa.select(cells, (of_instances + unassigned).label("machines")).where(*which).order_by(cells.c.name)
    return tuple(
        Cell(**row._asdict() | {"only_plan": Plan(row.only_plan) if row.only_plan else None})
        for row in connection.execute(query)
    )


def _no_cell(connection: sa.Connection, name: CellName) -> UsageError:
    return unknown_name("cell", name, connection.scalars(sa.select(cells.c.name).order_by(cells.c.name)))


def _machine(row: sa.Row[Any], name: str) -> CellMachine:
    return CellMachine(MachineName(name), row.server_type, row.region, row.image_id, row.instance_id, Plan(row.plan))
