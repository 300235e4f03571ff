"""A user's agent and its use of models, as the users' API may see them: no machine, no settings, no secret."""

from dataclasses import dataclass
from datetime import date, datetime

import sqlalchemy as sa

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.plan import Plan
from hermesops.store.registry.database import Database
from hermesops.store.registry.schema.tables import (
    LIVING,
    hermes_instances,
    instance_details,
    model_budgets,
    model_usage,
    users,
)
from hermesops.store.registry.schema.user_tables import turns

_INSTANCES = hermes_instances.c
_COLUMNS = (
    _INSTANCES.id,
    _INSTANCES.plan,
    _INSTANCES.status,
    _INSTANCES.created_at,
    _INSTANCES.last_heartbeat,
    instance_details.c.region,
)


@dataclass(frozen=True)
class Account:
    """A user's agent that is not terminated."""

    instance_id: InstanceId
    plan: Plan
    status: InstanceStatus
    created_at: datetime
    last_heartbeat: datetime | None
    region: str


@dataclass(frozen=True)
class UsageOfMonth:
    """The use of models by a user's agent in a month of UTC, and its budget.

    Attributes:
        micros: Millionths of a US dollar.
        budget_micros: ``None`` for no limit.
        turns: Messages of the web chat.
    """

    month: date
    input_tokens: int
    output_tokens: int
    micros: int
    budget_micros: int | None
    turns: int


class UserAccounts:
    """Agents of users, as the users' API reads them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of_user(self, user_id: UserId) -> Account | None:
        """Find the user's agent; ``None`` where they have none.

        Raises:
            UnavailableError: The database does not answer.
        """
        query = sa.select(*_COLUMNS).outerjoin(instance_details, instance_details.c.instance_id == _INSTANCES.id)
        with self._database.reading() as connection:
            row = connection.execute(query.where(_INSTANCES.user_id == user_id, LIVING)).one_or_none()
        if row is None:
            return None
        return Account(
            InstanceId(row.id), row.plan, row.status, row.created_at, row.last_heartbeat, str(row.region or "")
        )

    def alias_of(self, user_id: UserId) -> str:
        """A user's alias; empty for none."""
        with self._database.reading() as connection:
            return str(connection.execute(sa.select(users.c.alias).where(users.c.id == user_id)).scalar() or "")

    def named(self) -> tuple[tuple[UserId, str], ...]:
        """Users with an alias and an agent that is not terminated, by alias; for the local world's sign-in."""
        query = sa.select(users.c.id, users.c.alias).join(hermes_instances, _INSTANCES.user_id == users.c.id)
        query = query.where(LIVING, users.c.alias.is_not(None)).order_by(users.c.alias).limit(50)
        with self._database.reading() as connection:
            return tuple((UserId(row.id), str(row.alias)) for row in connection.execute(query))

    def usage(self, user_id: UserId, account: Account) -> UsageOfMonth:
        """Sum the use of models of this month."""
        used, budgets = model_usage.c, model_budgets.c
        with self._database.reading() as connection:
            now = self._database.now(connection)
            month = now.date().replace(day=1)
            sums = (sa.func.coalesce(sa.func.sum(column), 0) for column in _AMOUNTS)
            of_month = sa.and_(used.instance_id == account.instance_id, used.day >= month)
            input_tokens, output_tokens, micros = connection.execute(sa.select(*sums).where(of_month)).one()
            budget = connection.execute(sa.select(budgets.micros).where(budgets.plan == account.plan.value)).scalar()
            begin = now.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
            counted = sa.select(sa.func.count()).where(turns.c.user_id == user_id, turns.c.created_at >= begin)
            count = connection.execute(counted).scalar_one()
        return UsageOfMonth(month, int(input_tokens), int(output_tokens), int(micros), budget, int(count))

    def now(self) -> datetime:
        """The time of the database's clock, which all processes share."""
        with self._database.reading() as connection:
            return self._database.now(connection)


_AMOUNTS = (model_usage.c.input_tokens, model_usage.c.output_tokens, model_usage.c.micros)
