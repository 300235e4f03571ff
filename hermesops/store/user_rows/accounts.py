"""A user's agent, as the users' API may see it: no machine, no settings, no secret."""

from dataclasses import dataclass
from datetime import datetime

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.plan import Plan
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import LIVING, hermes_instances

_COLUMNS = (
    hermes_instances.c.id,
    hermes_instances.c.plan,
    hermes_instances.c.status,
    hermes_instances.c.created_at,
    hermes_instances.c.last_heartbeat,
)


@dataclass(frozen=True)
class Account:
    """A user's agent that is not terminated."""

    instance_id: InstanceId
    plan: Plan
    status: InstanceStatus
    created_at: datetime
    last_heartbeat: datetime | None


class Accounts:
    """Users' agents, one query each."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_user(self, user_id: UserId) -> Account | None:
        """Find the user's agent; ``None`` where they have none.

        Raises:
            UnavailableError: The database does not answer.
        """
        query = sa.select(*_COLUMNS).where(hermes_instances.c.user_id == user_id, LIVING)
        with self._database.reading() as connection:
            row = connection.execute(query).one_or_none()
        if row is None:
            return None
        return Account(InstanceId(row.id), row.plan, row.status, row.created_at, row.last_heartbeat)

    def now(self) -> datetime:
        """The time of the database's clock, which all processes share."""
        with self._database.reading() as connection:
            return self._database.now(connection)
