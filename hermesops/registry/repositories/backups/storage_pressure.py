"""Which agents' data come near to what their plans have room for, by their newest backups."""

from collections.abc import Mapping

import sqlalchemy as sa

from hermesops.model.crowding import SHARE, LowOnDisk
from hermesops.model.plan import Plan
from hermesops.registry.repositories.base import Repository
from hermesops.registry.schema.tables import LIVING, backups, hermes_instances, users


class StoragePressureRepository(Repository):
    """Agents that are low on disk."""

    def list(self, sizes: Mapping[Plan, int], *, share: float = SHARE) -> tuple[LowOnDisk, ...]:
        """Running agents whose newest backup takes more than that part of their plan's bytes, the fullest first."""
        columns, newer = backups.c, backups.alias()
        large = sa.or_(
            sa.false(),
            *(sa.and_(hermes_instances.c.plan == plan, columns.bytes >= size * share) for plan, size in sizes.items()),
        )
        is_newest = ~sa.exists().where(newer.c.instance_id == columns.instance_id, newer.c.at > columns.at)
        query = (
            sa.select(users.c.alias, hermes_instances.c.user_id, hermes_instances.c.plan, columns.bytes)
            .select_from(backups.join(hermes_instances, hermes_instances.c.id == columns.instance_id))
            .join(users, users.c.id == hermes_instances.c.user_id)
            .where(LIVING, large, is_newest)
        )
        with self._database.reading() as connection:
            found = connection.execute(query).all()
        crowded = [
            LowOnDisk(row.alias or row.user_id, Plan(row.plan), row.bytes, sizes[Plan(row.plan)]) for row in found
        ]
        return tuple(sorted(crowded, key=lambda one: (-one.bytes / one.size, one.user)))
