"""Usage of models: rows that routers add to, budgets of plans, and a router's own access to both."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.errors import UnavailableError
from hermesops.model.billing.model_usage import Account, Spent, Usage
from hermesops.model.ids import InstanceId
from hermesops.model.plan import Plan
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import Repository, insert_if_absent, insert_or_update
from hermesops.store.registry.schema.tables import (
    hermes_instances,
    instance_details,
    model_budgets,
    model_usage,
    model_usage_batches,
)

BATCHES_KEPT = timedelta(days=30)
"""How long a batch is remembered; no router delivers one again after that."""

_AMOUNTS = ("requests", "input_tokens", "output_tokens", "micros")


@dataclass(frozen=True)
class Budget:
    """Monthly limit of an agent's usage of models, by plan; ``None`` for no limit.

    Attributes:
        micros: Millionths of a US dollar.
    """

    tokens: int | None = None
    micros: int | None = None


class RouterLedger:
    """A model router's access to a registry, without a key; PostgreSQL's own is ``model_router.accounts.ledger``.

    It connects each time: an SQLite registry may have been restored from a copy since the last one.
    """

    def __init__(self, url: str) -> None:
        self._url = url

    def read(self) -> Mapping[InstanceId, Account]:
        """Each instance's account, of terminated instances too.

        Raises:
            UnavailableError: The registry does not answer.
            BrokenInvariantError: It is damaged, or older than this code.
        """
        database = Database(self._url)
        try:
            if database.is_missing():
                return {}
            with database.reading() as connection:
                rows = connection.execute(_accounts(database.now(connection))).all()
            return {InstanceId(row.instance_id): _account(row) for row in rows}
        finally:
            database.close()

    def write(self, batch: str, rows: Sequence[Usage]) -> None:
        """Add a batch unless it is there.

        Raises:
            UnavailableError: The registry does not answer, or is not there yet.
        """
        database = Database(self._url)
        try:
            if database.is_missing():
                raise UnavailableError(f"the registry {database.title} is not there")
            with database.writing(guarded=False) as connection:
                values = {"id": batch, "at": database.now(connection)}
                if insert_if_absent(connection, model_usage_batches, values):
                    _add(connection, rows)
        finally:
            database.close()


class ModelUsageRepository(Repository):
    """Usage of models, and budgets of plans."""

    def list(self, since: date, *, instance_id: InstanceId | None = None) -> tuple[Usage, ...]:
        """Sums for each day, model, provider and outcome from a day on, oldest first."""
        query = sa.select(model_usage).where(model_usage.c.day >= since)
        if instance_id:
            query = query.where(model_usage.c.instance_id == instance_id)
        return tuple(
            Usage(**{**row._mapping, "instance_id": InstanceId(row.instance_id)})  # noqa: SLF001 - SQLAlchemy's name for it
            for row in self._rows(query.order_by(*model_usage.primary_key))
        )

    def budgets(self) -> Mapping[Plan, Budget]:
        """The budget of each plan; none for no limit."""
        known = {plan.value: plan for plan in Plan}
        rows = self._rows(sa.select(model_budgets))
        return {known[row.plan]: Budget(row.tokens, row.micros) for row in rows if row.plan in known}

    def set_budgets(self, budgets: Mapping[Plan, Budget], *, why: str) -> bool:
        """Write budgets of all plans; returns whether any changed."""
        before = self.budgets()
        changed = {plan: budget for plan, budget in budgets.items() if before.get(plan, Budget()) != budget}
        if not changed:
            return False
        with self._database.writing() as connection:
            for plan, budget in changed.items():
                values = {"plan": plan.value, "tokens": budget.tokens, "micros": budget.micros}
                insert_or_update(connection, model_budgets, values)
            after = {plan.value: vars(budget) for plan, budget in changed.items()}
            was = {plan.value: vars(before.get(plan, Budget())) for plan in changed}
            self._note(connection, "model_budgets_set", "models", before=was, after=after, why=why)
        return True

    def forget_batches(self) -> int:
        """Delete batches that no router delivers again; returns their number."""
        with self._database.writing() as connection:
            old = model_usage_batches.c.at < self._database.now(connection) - BATCHES_KEPT
            return connection.execute(model_usage_batches.delete().where(old)).rowcount


def _accounts(now: datetime) -> sa.Select[Any]:
    columns, instances, used = instance_details.c, hermes_instances.c, model_usage.c
    spent = (
        sa.select(
            used.instance_id,
            sa.func.sum(used.input_tokens + used.output_tokens).label("tokens"),
            sa.func.sum(used.micros).label("micros"),
        )
        .where(used.day >= now.date().replace(day=1))
        .group_by(used.instance_id)
        .subquery()
    )
    return (
        sa.select(
            columns.instance_id,
            sa.func.coalesce(columns.model_token_floor, columns.model_token_generation).label("floor"),
            model_budgets.c.tokens.label("budget_tokens"),
            model_budgets.c.micros.label("budget_micros"),
            sa.func.coalesce(spent.c.tokens, 0).label("tokens"),
            sa.func.coalesce(spent.c.micros, 0).label("micros"),
            instances.vm_ip,
        )
        .join(hermes_instances, instances.id == columns.instance_id)
        .outerjoin(model_budgets, model_budgets.c.plan == sa.cast(instances.plan, sa.String))
        .outerjoin(spent, spent.c.instance_id == columns.instance_id)
    )


def _account(row: sa.Row[Any]) -> Account:
    spent = Spent(int(row.tokens), int(row.micros))
    return Account(int(row.floor), row.budget_tokens, row.budget_micros, spent, row.vm_ip or "")


def _add(connection: sa.Connection, rows: Iterable[Usage]) -> None:
    columns = model_usage.c
    for row in rows:
        values = vars(row)
        if insert_if_absent(connection, model_usage, values):
            continue
        same = sa.and_(*(columns[name] == values[name] for name in model_usage.primary_key.columns.keys()))  # noqa: SIM118 - no mapping
        more = {name: columns[name] + values[name] for name in _AMOUNTS}
        connection.execute(model_usage.update().where(same).values(more))
