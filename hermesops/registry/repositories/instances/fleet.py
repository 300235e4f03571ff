"""The whole fleet: every living instance with the machine its row orders, and the cells in numbers."""

from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import sqlalchemy as sa

from hermesops.model.fleet import CellTally, Ordered
from hermesops.model.ids import CellName, InstanceId, MachineName
from hermesops.model.unassigned_machine import MachineRole, UnassignedStatus
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.instances.instance import ALL, instance_of
from hermesops.registry.schema.tables import LIVING, cells, hermes_instances, instance_details, unassigned_machines

if TYPE_CHECKING:
    from hermesops.model.instance import InstanceStatus
    from hermesops.model.plan import Plan


class FleetRepository(Repository):
    """All instances at once."""

    def list_ordered(self, cell: CellName | None = None) -> tuple[Ordered, ...]:
        """Every living instance, or those of a cell, with the machine its row orders, by machine name."""
        details = instance_details.c
        query = ALL.add_columns(details.server_type, details.region, details.image_id, details.machine_wanted)
        if cell is not None:
            query = query.where(details.cell == cell)
        rows = self._rows(query.where(LIVING).order_by(details.machine_name))
        return tuple(
            Ordered(instance_of(row), row.server_type, row.region, row.image_id, row.machine_wanted) for row in rows
        )

    def ended_machines(self) -> Mapping[MachineName, InstanceId]:
        """The machines of terminated instances, by name: the vendor should list none of them."""
        details = instance_details.c
        query = (
            sa.select(details.machine_name, details.instance_id)
            .join_from(instance_details, hermes_instances)
            .where(sa.not_(LIVING))
        )
        return {MachineName(name): InstanceId(id_) for name, id_ in self._rows(query)}

    def tally_cells(self) -> tuple[CellTally, ...]:
        """How many machines of which kind each cell has, by name; without terminated instances."""
        columns, unassigned = hermes_instances.c, unassigned_machines.c
        query = (
            sa.select(instance_details.c.cell, columns.plan, columns.status)
            .join_from(instance_details, hermes_instances)
            .where(LIVING)
            .order_by(columns.created_at, columns.id)
        )
        with self._database.reading() as connection:
            regions = connection.execute(sa.select(cells.c.name, cells.c.region).order_by(cells.c.name)).all()
            living = connection.execute(query).all()
            extra = connection.execute(sa.select(unassigned.cell, unassigned.role, unassigned.status)).all()
        grids: dict[str, list[InstanceStatus]] = {}
        plans: dict[str, Counter[Plan]] = {}
        for cell, plan, status in living:
            grids.setdefault(cell, []).append(status)
            plans.setdefault(cell, Counter())[plan] += 1
        kinds: dict[str, Counter[tuple[MachineRole, UnassignedStatus]]] = {}
        for cell, role, status in extra:
            kinds.setdefault(cell, Counter())[MachineRole(role), UnassignedStatus(status)] += 1
        return tuple(
            CellTally(name, region, tuple(grids.get(name, ())), dict(plans.get(name, {})), dict(kinds.get(name, {})))
            for name, region in regions
        )
