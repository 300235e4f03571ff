"""Rows of ``cells``, and what machines each cell should have."""

from collections.abc import Mapping

import sqlalchemy as sa

from hermesops.errors import UsageError
from hermesops.model.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.registry.rows import Rows, insert_if_absent
from hermesops.registry.schema import LIVING, cells, hermes_instances, instance_details

_WITH_INSTANCE = instance_details.join(hermes_instances, hermes_instances.c.id == instance_details.c.instance_id)


class CellRows(Rows):
    """Cells and their desired machines."""

    def ensure_cell(self, name: CellName, *, region: str) -> None:
        """Make the cell's row unless it is there; safe to call twice."""
        with self._database.writing() as connection:
            values = {"name": name, "region": region, "created_at": self._database.now(connection)}
            if insert_if_absent(connection, cells, values):
                self._note(connection, "cell_opened", f"cell/{name}", after={"region": region})

    def list_cells(self) -> tuple[CellName, ...]:
        """Every cell, by name."""
        with self._database.reading() as connection:
            return tuple(CellName(name) for name in connection.scalars(sa.select(cells.c.name).order_by(cells.c.name)))

    def cell_population(self, region: str) -> Mapping[CellName, int]:
        """How many machines each cell of a region holds, those on their way out included."""
        query = (
            sa.select(cells.c.name, sa.func.count(hermes_instances.c.id))
            .select_from(
                cells.outerjoin(instance_details, instance_details.c.cell == cells.c.name).outerjoin(
                    hermes_instances, (hermes_instances.c.id == instance_details.c.instance_id) & LIVING
                )
            )
            .where(cells.c.region == region)
            .group_by(cells.c.name)
        )
        with self._database.reading() as connection:
            return {CellName(name): count for name, count in connection.execute(query)}

    def cell_spec(self, cell: CellName) -> CellSpec:
        """The machines of all instances of the cell that are not on their way out, by name.

        Raises:
            UsageError: No such cell was ever opened.
        """
        query = (
            sa.select(instance_details)
            .select_from(_WITH_INSTANCE)
            .where(instance_details.c.cell == cell, instance_details.c.machine_wanted, LIVING)
            .order_by(instance_details.c.machine_name)
        )
        with self._database.reading() as connection:
            if connection.scalar(sa.select(cells.c.name).where(cells.c.name == cell)) is None:
                raise UsageError(f"there is no cell {cell}", hint="hermesops stack list")
            found = connection.execute(query).all()
        return CellSpec(
            cell,
            tuple(
                CellMachine(
                    MachineName(row.machine_name),
                    row.server_type,
                    row.region,
                    ImageId(row.image_id) if row.image_id else None,
                    InstanceId(row.instance_id),
                )
                for row in found
            ),
        )

    def doomed_machines(self, cell: CellName) -> frozenset[MachineName]:
        """The machines of the cell that were given up (``give_up_machine``) and are not known to be gone."""
        query = (
            sa.select(instance_details.c.machine_name)
            .select_from(_WITH_INSTANCE)
            .where(instance_details.c.cell == cell, sa.not_(instance_details.c.machine_wanted), LIVING)
        )
        with self._database.reading() as connection:
            return frozenset(MachineName(name) for name in connection.scalars(query))
