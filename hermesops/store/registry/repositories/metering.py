"""Rows of ``metered_usage``: the ledger of what is reported to Stripe's meters."""

from collections.abc import Mapping, Sequence
from datetime import date, datetime
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.metering import Entered, Entry, EntryState, LedgerEntry, Meter, Metered, MeteredSum
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import LIVING, billing_events, hermes_instances, model_usage
from hermesops.store.registry.schema.user_tables import metered_usage

_COLUMNS = metered_usage.c
_DETAIL = 500
_PENDING = _COLUMNS.state == EntryState.PENDING.value


class MeteringRepository(Repository):
    """The ledger of metered usage; entries are added, and only their reporting changes."""

    def instances(self, since: date) -> Sequence[Metered]:
        """Instances that a subscription pays for, or that have used models since a day; not before it has an event."""
        columns, used, events = hermes_instances.c, model_usage.c, billing_events.c
        begun_at = sa.func.min(sa.func.coalesce(events.started_at, events.created_at), type_=events.created_at.type)
        begins = (
            sa.select(events.subscription_id, begun_at.label("begun_at"))
            .where(events.created_at.is_not(None))
            .group_by(events.subscription_id)
            .subquery()
        )
        query = (
            sa.select(columns.id, columns.user_id, columns.stripe_subscription_id, columns.status, begins.c.begun_at)
            .join(begins, begins.c.subscription_id == columns.stripe_subscription_id)
            .where(sa.or_(LIVING, columns.id.in_(sa.select(used.instance_id).where(used.day >= since))))
            .order_by(columns.id)
        )
        return tuple(
            Metered(
                InstanceId(row.id),
                UserId(row.user_id),
                row.stripe_subscription_id,
                row.begun_at.date(),
                is_running=row.status == InstanceStatus.RUNNING,
            )
            for row in self._rows(query)
        )

    def used(self, since: date) -> Mapping[tuple[InstanceId, date], int]:
        """Micros that each instance used of models, by day from one on."""
        used = model_usage.c
        total = sa.func.sum(used.micros).label("micros")
        query = sa.select(used.instance_id, used.day, total).where(used.day >= since)
        rows = self._rows(query.group_by(used.instance_id, used.day))
        return {(InstanceId(row.instance_id), row.day): int(row.micros) for row in rows}

    def entered(self, since: date) -> Mapping[tuple[InstanceId, Meter, date], Entered]:
        """Sums of the entries of each instance, meter and day from one on."""
        query = (
            sa.select(
                _COLUMNS.instance_id,
                _COLUMNS.meter,
                _COLUMNS.day,
                sa.func.sum(_COLUMNS.quantity).label("quantity"),
                sa.func.max(_COLUMNS.sequence).label("last"),
                sa.func.max(_COLUMNS.measured_at, type_=_COLUMNS.measured_at.type).label("last_at"),
            )
            .where(_COLUMNS.day >= since, _COLUMNS.meter.in_([meter.value for meter in Meter]))
            .group_by(_COLUMNS.instance_id, _COLUMNS.meter, _COLUMNS.day)
        )
        return {
            (InstanceId(row.instance_id), Meter(row.meter), row.day): Entered(int(row.quantity), row.last, row.last_at)
            for row in self._rows(query)
        }

    def enter(self, entries: Sequence[Entry]) -> int:
        """Add entries; returns how many are new.

        One whose identifier, or whose minute, another entry of the user has is left out: the next look adds it.
        """
        if not entries:
            return 0
        with self._database.writing() as connection:
            now = self._database.now(connection)
            return sum(insert_if_absent(connection, metered_usage, _values(entry, now)) for entry in entries)

    def pending(self, *, limit: int = 10_000) -> tuple[LedgerEntry, ...]:
        """Entries that are not known to be at Stripe, the oldest first."""
        query = sa.select(metered_usage).where(_PENDING).order_by(_COLUMNS.measured_at, _COLUMNS.identifier)
        return tuple(map(_entry, self._rows(query.limit(limit))))

    def pending_of(self, user_id: UserId, *, limit: int = 1_000) -> tuple[LedgerEntry, ...]:
        """A user's entries that are not known to be at Stripe, the oldest first."""
        query = sa.select(metered_usage).where(_PENDING, _COLUMNS.user_id == user_id)
        return tuple(map(_entry, self._rows(query.order_by(_COLUMNS.measured_at, _COLUMNS.identifier).limit(limit))))

    def measured(self, begin: datetime, end: datetime) -> tuple[LedgerEntry, ...]:
        """Entries that were measured in a period."""
        is_in = sa.and_(_COLUMNS.measured_at >= begin, _COLUMNS.measured_at < end)
        return tuple(map(_entry, self._rows(sa.select(metered_usage).where(is_in).order_by(_COLUMNS.measured_at))))

    def begin(self, identifier: str, customer: str, *, is_anew: bool) -> None:
        """Record that an entry is about to be sent, before it is.

        Args:
            is_anew: Whether Stripe is known not to have it, so that its tries begin again.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            first = now if is_anew else sa.func.coalesce(_COLUMNS.first_tried_at, now)
            self._change(connection, identifier, {"customer": customer, "first_tried_at": first})

    def end(self, identifier: str, state: EntryState, detail: str = "") -> None:
        """Record that an entry is at Stripe, or will never be, or why it waits; one that has ended stays as it is."""
        with self._database.writing() as connection:
            ended_at = None if state is EntryState.PENDING else self._database.now(connection)
            self._change(
                connection, identifier, {"state": state.value, "detail": detail[:_DETAIL], "ended_at": ended_at}
            )

    def sums(self, user_id: UserId, since: datetime) -> tuple[MeteredSum, ...]:
        """A user's usage by meter from a time on."""
        return sums_of(self._database, user_id, since)

    def users_reported(self, since: datetime) -> frozenset[UserId]:
        """Users of whom an entry was reported from a time on."""
        query = sa.select(_COLUMNS.user_id).where(_COLUMNS.ended_at >= since).distinct()
        return frozenset(UserId(row.user_id) for row in self._rows(query))

    def count(self) -> Mapping[EntryState, int]:
        """Count the ledger's entries by state."""
        query = sa.select(_COLUMNS.state, sa.func.count().label("number")).group_by(_COLUMNS.state)
        return {EntryState(row.state): row.number for row in self._rows(query)}

    @staticmethod
    def _change(connection: sa.Connection, identifier: str, values: Mapping[str, object]) -> None:
        is_it = sa.and_(_COLUMNS.identifier == identifier, _PENDING)
        connection.execute(metered_usage.update().where(is_it).values(**values))


def sums_of(database: Database, user_id: UserId, since: datetime) -> tuple[MeteredSum, ...]:
    """A user's usage by meter from a time on, which needs no other right than to read the ledger."""
    reported = sa.case((_COLUMNS.state == EntryState.REPORTED.value, _COLUMNS.quantity), else_=0)
    query = (
        sa.select(
            _COLUMNS.meter,
            sa.func.sum(_COLUMNS.quantity).label("quantity"),
            sa.func.sum(reported).label("reported"),
            sa.func.max(_COLUMNS.measured_at, type_=_COLUMNS.measured_at.type).label("last_at"),
        )
        .where(_COLUMNS.user_id == user_id, _COLUMNS.measured_at >= since)
        .group_by(_COLUMNS.meter)
        .order_by(_COLUMNS.meter)
    )
    known = {meter.value: meter for meter in Meter}
    with database.reading() as connection:
        rows = connection.execute(query).all()
    return tuple(
        MeteredSum(known[row.meter], int(row.quantity), int(row.reported), row.last_at)
        for row in rows
        if row.meter in known
    )


def _values(entry: Entry, now: datetime) -> dict[str, Any]:
    return {
        "identifier": entry.identifier,
        "meter": entry.meter.value,
        "instance_id": entry.instance_id,
        "user_id": entry.user_id,
        "subscription_id": entry.subscription_id,
        "day": entry.day,
        "sequence": entry.sequence,
        "quantity": entry.quantity,
        "measured_at": entry.measured_at,
        "state": EntryState.PENDING.value,
        "entered_at": now,
    }


def _entry(row: sa.Row[Any]) -> LedgerEntry:
    entry = Entry(
        InstanceId(row.instance_id),
        UserId(row.user_id),
        row.subscription_id,
        Meter(row.meter),
        row.day,
        row.sequence,
        row.quantity,
        row.measured_at,
    )
    return LedgerEntry(entry, EntryState(row.state), row.customer, row.first_tried_at, row.detail)
