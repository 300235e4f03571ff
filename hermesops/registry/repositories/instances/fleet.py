"""The whole fleet: every living instance with the machine its row orders, and the cells in numbers."""

from collections import Counter
from collections.abc import Mapping

import sqlalchemy as sa

from hermesops.model.fleet import CellTally, Ordered, RecordedInstance
from hermesops.model.ids import CellName, InstanceId, MachineName
from hermesops.model.unassigned_machine import MachineRole, UnassignedStatus
from hermesops.registry.repositories.base import Repository
from hermesops.registry.repositories.instances.instance import ALL, instance_of
from hermesops.registry.schema.tables import (
    LIVING,
    cells,
    hermes_instances,
    instance_details,
    machine_observations,
    unassigned_machines,
    users,
)


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
        """The cells by name, with their instances and other machines; without terminated instances."""
        columns, unassigned = hermes_instances.c, unassigned_machines.c
        query = (
            sa.select(
                instance_details.c.cell,
                columns.id,
                users.c.alias,
                columns.user_id,
                columns.plan,
                columns.status,
                machine_observations.c.status,
                columns.last_heartbeat,
            )
            .select_from(hermes_instances.join(instance_details).join(users))
            .outerjoin(machine_observations, machine_observations.c.machine_id == columns.vm_id)
            .where(LIVING)
            .order_by(columns.created_at, columns.id)
        )
        with self._database.reading() as connection:
            regions = connection.execute(sa.select(cells.c.name, cells.c.region).order_by(cells.c.name)).all()
            living = connection.execute(query).all()
            extra = connection.execute(sa.select(unassigned.cell, unassigned.role, unassigned.status)).all()
        instances: dict[str, list[RecordedInstance]] = {}
        for cell, id_, alias, user_id, plan, status, seen, beat in living:
            recorded = RecordedInstance(InstanceId(id_), alias or user_id, plan, status, seen or "", beat)
            instances.setdefault(cell, []).append(recorded)
        kinds: dict[str, Counter[tuple[MachineRole, UnassignedStatus]]] = {}
        for cell, role, status in extra:
            kinds.setdefault(cell, Counter())[MachineRole(role), UnassignedStatus(status)] += 1
        return tuple(
            CellTally(name, region, tuple(instances.get(name, ())), dict(kinds.get(name, {})))
            for name, region in regions
        )
