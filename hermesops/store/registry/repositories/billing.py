"""Rows of ``billing_events``: Stripe's events as received, and the facts parsed from them."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.events import (
    MOST_BYTES,
    MOST_SIGNATURE,
    BillingEvent,
    BillingFact,
    BillingState,
    Delivery,
)
from hermesops.model.ids import InstanceId, OperationId, UserId, instance_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.schema.tables import LIVING, billing_events, hermes_instances, operations
from hermesops.store.registry.schema.user_tables import metered_usage, user_plans

_COLUMNS = billing_events.c
_DETAIL = 500

_LOCK = 0x6865726D6575
"""Number of the advisory lock under which PostgreSQL records once at a time what an event says."""

_BODY_STAYS = timedelta(days=1)
"""For how long what was received of a refused or dismissed event is kept."""

_MOST_REFUSED_BODIES = 100
"""Refused events whose bodies are kept: enough to see that the secret here is the wrong one, 25 MiB at most."""

_LOOKED_AT_SOON = timedelta(minutes=3)
"""Longer than an event waits that could not be applied, and shorter than any days of grace."""

_USAGE_RESTS = timedelta(hours=1)
"""Usage is reported all day: a statement is not read anew for each event of it."""

_SEEN = "it was read at Stripe, and no event had said it"

_HAS_ENDED = (BillingState.APPLIED.value, BillingState.DISMISSED.value, BillingState.REFUSED.value)
_WAITS = _COLUMNS.state == BillingState.WAITING.value
_READ = tuple(column for column in _COLUMNS if column.name not in {"body", "signature"})
_EVENTS = sa.select(*_READ, _COLUMNS.body.is_not(None).label("has_body"))


@dataclass(frozen=True)
class Outcome:
    """New state of an event.

    Attributes:
        due_at: Time of the next try; for an event that has ended, the time of its deletion.
    """

    state: BillingState
    detail: str = ""
    operation_id: OperationId | None = None
    due_at: datetime | None = None


def receive(database: Database, body: bytes, signature: str) -> int:
    """Put an event into the queue as it came, which needs no other right on the table; the number of its row."""
    with database.writing() as connection:
        values = {"body": body, "signature": signature, "received_at": database.now(connection)}
        number: int = connection.execute(billing_events.insert().values(values).returning(_COLUMNS.id)).scalar_one()
    return number


class BillingRepository(Repository):
    """Stripe's events, from receipt to their end."""

    # As received

    def receive(self, body: bytes, signature: str) -> int:
        """Put an event into the queue; the number of its row."""
        return receive(self._database, body, signature)

    def queued(self, *, limit: int = 100) -> tuple[int, ...]:
        """Return the numbers of events that are not parsed yet, the oldest first."""
        is_it = _COLUMNS.state == BillingState.QUEUED.value
        query = sa.select(_COLUMNS.id).where(is_it).order_by(_COLUMNS.id).limit(limit)
        return tuple(row.id for row in self._rows(query))

    def delivery(self, number: int) -> Delivery | None:
        """An event as received; ``None`` where nothing is left of that, or it is larger than any of Stripe's."""
        query = sa.select(_COLUMNS.body, _COLUMNS.signature, _COLUMNS.received_at).where(
            _COLUMNS.id == number,
            sa.func.length(_COLUMNS.body) <= MOST_BYTES,
            sa.func.length(_COLUMNS.signature) <= MOST_SIGNATURE,
        )
        row = self._row(query)
        return Delivery(bytes(row.body), row.signature, row.received_at) if row else None

    # As read

    def read(
        self, number: int, event_id: str, kind: str, fact: BillingFact | None, outcome: Outcome, *, keeps_body: bool
    ) -> int:
        """Record the parsed content of a queued event; a repetition of a known event is counted, and its row deleted.

        Args:
            event_id: Stripe's id; empty if the event cannot be parsed.

        Returns:
            The number of the event's row.
        """
        with self._database.writing() as connection:
            self._lock(connection)
            locked = connection.execute(sa.select(_COLUMNS.state).where(_COLUMNS.id == number)).one_or_none()
            if locked is None or locked.state != BillingState.QUEUED:
                return number  # another worker has read it
            same = sa.and_(_COLUMNS.event_id == event_id, _COLUMNS.id != number)
            if event_id and (known := connection.scalar(sa.select(_COLUMNS.id).where(same))):
                connection.execute(billing_events.delete().where(_COLUMNS.id == number))
                again = {"deliveries": _COLUMNS.deliveries + 1}
                connection.execute(billing_events.update().where(_COLUMNS.id == known).values(again))
                return int(known)
            values = {**_read_values(event_id, kind, fact), **self._outcome_values(connection, outcome)}
            if not keeps_body:
                values |= {"body": None, "signature": None}
            connection.execute(billing_events.update().where(_COLUMNS.id == number).values(values))
            if outcome.state is BillingState.SET_ASIDE:
                self._note_outcome(connection, _subject(number), [event_id], outcome)
        return number

    def refuse(self, refused: Sequence[tuple[int, str]]) -> None:
        """Record that queued events are not Stripe's or not meant for this environment.

        What was received stays for a day: the secret here may be the wrong one. One audit entry stands for all of
        them, since anybody may be able to send such.

        Args:
            refused: Numbers of rows, and why.
        """
        if not refused:
            return
        with self._database.writing() as connection:
            forgotten_at = self._database.now(connection) + _BODY_STAYS
            for number, why in refused:
                values = self._outcome_values(connection, Outcome(BillingState.REFUSED, why, due_at=forgotten_at))
                is_it = sa.and_(_COLUMNS.id == number, _COLUMNS.state == BillingState.QUEUED.value)
                connection.execute(billing_events.update().where(is_it).values(values))
            self._empty_refused(connection)
            reasons = sorted({why for _, why in refused})
            after = {"count": len(refused), "events": [number for number, _ in refused[:20]]}
            self._note(connection, "billing_events_refused", "billing", after=after, why="; ".join(reasons)[:_DETAIL])

    def _empty_refused(self, connection: sa.Connection) -> None:
        """Delete the bodies of refused events but the newest: anybody may send such, as many as they like."""
        is_refused = sa.and_(_COLUMNS.state == BillingState.REFUSED.value, _COLUMNS.body.is_not(None))
        newest = sa.select(_COLUMNS.id).where(is_refused).order_by(_COLUMNS.id.desc()).limit(_MOST_REFUSED_BODIES)
        emptied = billing_events.update().where(is_refused, _COLUMNS.id.not_in(newest))
        connection.execute(emptied.values(body=None, signature=None))

    def get(self, number: int) -> BillingEvent:
        """The event of a row.

        Raises:
            UsageError: There is none.
        """
        return self._one_event(_COLUMNS.id == number, str(number))

    def find(self, text: str) -> BillingEvent:
        """Return an event by the number of its row or by Stripe's id.

        Raises:
            UsageError: There is none.
        """
        number = int(text) if text.isascii() and text.isdigit() and len(text) < 18 else 0  # noqa: PLR2004 - a BIGINT's
        return self._one_event(sa.or_(_COLUMNS.id == number, _COLUMNS.event_id == text), text)

    def _one_event(self, condition: sa.ColumnElement[bool], text: str) -> BillingEvent:
        row = self._row(_EVENTS.where(condition))
        if row is None:
            raise unknown_name("billing event", text)
        return _event(row)

    def list(
        self, *, states: Collection[BillingState] = (), user_id: UserId | None = None, limit: int = 1000
    ) -> tuple[BillingEvent, ...]:
        """Return events, newest first; those of a user include events of the user's subscriptions."""
        query = _EVENTS.order_by(_COLUMNS.id.desc()).limit(limit)
        if states:
            query = query.where(_COLUMNS.state.in_([state.value for state in states]))
        if user_id:
            query = query.where(_is_of(user_id))
        return tuple(map(_event, self._rows(query)))

    def count(self) -> dict[BillingState, int]:
        """Return the number of events by state."""
        query = sa.select(_COLUMNS.state, sa.func.count().label("number")).group_by(_COLUMNS.state)
        return {BillingState(row.state): row.number for row in self._rows(query)}

    def oldest_pending(self) -> dict[BillingState, datetime]:
        """Return since when the oldest event of each state waits for a worker or a person; other states are absent.

        An event that waits for days of grace to end is not pending. An event whose operation was opened is pending
        since then.
        """
        with self._database.reading() as connection:
            now = self._database.now(connection)
            is_due = sa.or_(_COLUMNS.due_at.is_(None), _COLUMNS.due_at <= now + _LOOKED_AT_SOON)
            pending = sa.or_(
                _COLUMNS.state.in_([BillingState.QUEUED.value, BillingState.SET_ASIDE.value]), sa.and_(_WAITS, is_due)
            )
            opened_at = sa.case((_WAITS, operations.c.created_at), else_=None)
            since = sa.func.min(sa.func.coalesce(opened_at, _COLUMNS.received_at), type_=_COLUMNS.received_at.type)
            query = (
                sa.select(_COLUMNS.state, since.label("since"))
                .select_from(billing_events.outerjoin(operations, operations.c.id == _COLUMNS.operation_id))
                .where(pending)
                .group_by(_COLUMNS.state)
            )
            return {BillingState(row.state): row.since for row in connection.execute(query)}

    def of_user(self, user_id: UserId) -> tuple[BillingEvent, ...]:
        """Every event that says something of the user's subscriptions, in the order in which they came."""
        query = _EVENTS.where(_is_of(user_id), _COLUMNS.created_at.is_not(None))
        return tuple(map(_event, self._rows(query.order_by(_COLUMNS.id))))

    def user_of(self, subscription_id: str) -> UserId | None:
        """Return the user that the first received event of a subscription names; ``None`` if no event names one."""
        query = (
            sa.select(_COLUMNS.user_id)
            .where(_COLUMNS.subscription_id == subscription_id, _COLUMNS.user_id.is_not(None))
            .order_by(_COLUMNS.id)
            .limit(1)
        )
        row = self._row(query)
        return UserId(row.user_id) if row else None

    def due_users(self, *, everybody: bool = False, limit: int = 1000) -> tuple[UserId, ...]:
        """Users with an event that is to be looked at now; of ``everybody``, with one that waits."""
        named = billing_events.alias("named")
        with self._database.reading() as connection:
            query = (
                sa.select(named.c.user_id)
                .select_from(named.join(billing_events, named.c.subscription_id == _COLUMNS.subscription_id))
                .where(named.c.user_id.is_not(None), _WAITS if everybody else self._is_due(connection))
                .distinct()
                .order_by(named.c.user_id)
                .limit(limit)
            )
            return tuple(UserId(row.user_id) for row in connection.execute(query))

    def _is_due(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        now = self._database.now(connection)
        return sa.and_(_WAITS, sa.or_(_COLUMNS.due_at.is_(None), _COLUMNS.due_at <= now))

    # As read at Stripe

    def facts_of(self, subscription_ids: Collection[str]) -> Mapping[str, Sequence[BillingFact]]:
        """What events said of these subscriptions, each in the order in which they came."""
        is_it = sa.and_(_COLUMNS.subscription_id.in_(list(subscription_ids)), _COLUMNS.created_at.is_not(None))
        facts: defaultdict[str, Any] = defaultdict(tuple)
        for row in self._rows(_EVENTS.where(is_it).order_by(_COLUMNS.id)):
            if (fact := _event(row).fact) is not None:
                facts[fact.subscription_id] += (fact,)
        return facts

    def add_seen(self, fact: BillingFact) -> bool:
        """Add the state of a subscription that no event said, to be applied as an event; whether it is new.

        Args:
            fact: Its ``event_id`` is ours, and the same for the same state read at the same time.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            values = {**_read_values(fact.event_id, fact.type, fact), "received_at": now, "detail": _SEEN}
            values["state"] = BillingState.WAITING.value
            if not insert_if_absent(connection, billing_events, values):
                return False
            after = {"subscription": fact.subscription_id, "status": fact.status, "prices": list(fact.prices)}
            self._note(connection, "subscription_read", f"user/{fact.user_id}", after=after, why=_SEEN)
        return True

    def paying_subscriptions(self) -> dict[InstanceId, str]:
        """The subscription that pays for each living instance that has one."""
        column = hermes_instances.c.stripe_subscription_id
        query = sa.select(hermes_instances.c.id, column).where(LIVING, column.is_not(None), column != "")
        return {InstanceId(row.id): row.stripe_subscription_id for row in self._rows(query)}

    def outdated_statements(self, *, limit: int = 500) -> tuple[UserId, ...]:
        """Users with an event, or with usage reported at least an hour later, since their statement was read."""
        with_event = self._with_event_since_statement(limit)
        metered, plans = metered_usage.c, user_plans.c
        newest = sa.func.max(metered.ended_at, type_=plans.read_at.type)
        query = (
            sa.select(metered.user_id, newest.label("newest"), plans.read_at)
            .join(user_plans, plans.user_id == metered.user_id)
            .where(metered.ended_at > plans.read_at)
            .group_by(metered.user_id, plans.read_at)
            .order_by(metered.user_id)
            .limit(limit)
        )
        with_usage = (UserId(row.user_id) for row in self._rows(query) if row.newest - row.read_at >= _USAGE_RESTS)
        return tuple(dict.fromkeys((*with_event, *with_usage)))[:limit]

    def _with_event_since_statement(self, limit: int) -> tuple[UserId, ...]:
        named = billing_events.alias("named")
        newest = sa.func.max(_COLUMNS.received_at, type_=_COLUMNS.received_at.type)
        same = billing_events.join(named, named.c.subscription_id == _COLUMNS.subscription_id)
        query = (
            sa.select(named.c.user_id)
            .select_from(same.outerjoin(user_plans, user_plans.c.user_id == named.c.user_id))
            .where(named.c.user_id.is_not(None), _COLUMNS.created_at.is_not(None))
            .group_by(named.c.user_id, user_plans.c.read_at)
            .having(sa.or_(user_plans.c.read_at.is_(None), newest >= user_plans.c.read_at))
            .order_by(named.c.user_id)
            .limit(limit)
        )
        return tuple(UserId(row.user_id) for row in self._rows(query))

    # Decided

    def decide(self, numbers: Collection[int], outcome: Outcome, *, subject: str) -> int:
        """Record new states of events that differ from the recorded ones; returns the number of changes.

        Events that have ended are not changed.

        Args:
            subject: Subject of the audit entry if an operation was opened or the events are set aside.
        """
        with self._database.writing() as connection:
            rows = connection.execute(
                _EVENTS.where(_COLUMNS.id.in_(list(numbers)), _COLUMNS.state.not_in(_HAS_ENDED))
                .order_by(_COLUMNS.id)
                .with_for_update()
            ).all()
            values = self._outcome_values(connection, outcome)
            if outcome.operation_id is None:
                values.pop("operation_id")
            is_it = _COLUMNS.id.in_([row.id for row in rows])
            connection.execute(billing_events.update().where(is_it).values(values))
            now = (outcome.state.value, outcome.detail[:_DETAIL])
            changed = [row for row in rows if (row.state, row.detail) != now]
            if changed and (outcome.operation_id or outcome.state is BillingState.SET_ASIDE):
                self._note_outcome(connection, subject, [row.event_id for row in changed], outcome)
        return len(changed)

    def retry(self, number: int, *, why: str) -> None:
        """Retry an event that was not applied; parses it again if its received body is still stored."""
        with self._database.writing() as connection:
            row = connection.execute(_EVENTS.where(_COLUMNS.id == number).with_for_update()).one()
            is_gone = row.state in _HAS_ENDED and not row.has_body and row.created_at is None
            if row.state == BillingState.APPLIED.value or is_gone:
                return
            state = BillingState.QUEUED if row.has_body else BillingState.WAITING
            values: dict[str, Any] = {"state": state.value, "due_at": None, "operation_id": None}
            if row.has_body:
                values["event_id"] = None
            connection.execute(billing_events.update().where(_COLUMNS.id == number).values(values))
            before, after = {"state": row.state}, {"state": state.value}
            self._note(connection, "billing_event_retried", _subject(row.id), before=before, after=after, why=why)

    def dismiss(self, numbers: Collection[int], *, why: str) -> None:
        """Record that a person wants nothing to follow from events that were set aside; others stay as they are.

        What one says of a subscription stays. What was received of one that says nothing is kept for a day more.
        """
        with self._database.writing() as connection:
            is_it = sa.and_(_COLUMNS.id.in_(list(numbers)), _COLUMNS.state == BillingState.SET_ASIDE.value)
            rows = connection.execute(_EVENTS.where(is_it).order_by(_COLUMNS.id).with_for_update()).all()
            forgotten_at = self._database.now(connection) + _BODY_STAYS
            for row in rows:
                due_at = forgotten_at if row.created_at is None else None
                values = self._outcome_values(connection, Outcome(BillingState.DISMISSED, row.detail, due_at=due_at))
                values.pop("operation_id")
                connection.execute(billing_events.update().where(_COLUMNS.id == row.id).values(values))
            if rows:
                after = {"events": [row.event_id or row.id for row in rows]}
                self._note(connection, "billing_events_dismissed", "billing", after=after, why=why)

    def unnamed(self, older_than: timedelta) -> tuple[int, ...]:
        """Numbers of events that wait for one that names the user of their subscription, for longer than that."""
        named = billing_events.alias("named")
        is_named = sa.exists().where(named.c.subscription_id == _COLUMNS.subscription_id, named.c.user_id.is_not(None))
        with self._database.reading() as connection:
            is_old = _COLUMNS.received_at <= self._database.now(connection) - older_than
            which = sa.and_(_WAITS, is_old, ~is_named)
            return tuple(connection.scalars(sa.select(_COLUMNS.id).where(which).order_by(_COLUMNS.id).limit(1000)))

    def count_old(self) -> int:
        """Return the number of events that ``forget`` would shorten or delete."""
        with self._database.reading() as connection:
            counting = sa.select(sa.func.count()).select_from(billing_events).where(self._is_old(connection))
            return int(connection.execute(counting).scalar_one())

    def forget(self, keep: timedelta) -> None:
        """Delete received bodies of old events that could not be parsed, and old rows that led to nothing.

        Args:
            keep: Time for which rows of refused and dismissed events stay.
        """
        with self._database.writing() as connection:
            is_old, has_body = self._is_old(connection), _COLUMNS.body.is_not(None)
            has_ended = _COLUMNS.state.in_(_HAS_ENDED)
            nothing_left = sa.and_(is_old, ~has_body, has_ended)
            counts = {"events": connection.execute(billing_events.delete().where(nothing_left)).rowcount}
            later = sa.case((has_ended, self._database.now(connection) + keep), else_=None)
            emptied = {"body": None, "signature": None, "due_at": later}
            shortened = billing_events.update().where(is_old, has_body).values(emptied)
            counts["bodies"] = connection.execute(shortened).rowcount
            if any(counts.values()):
                self._note(connection, "billing_events_forgotten", "billing", after=counts)

    def _is_old(self, connection: sa.Connection) -> sa.ColumnElement[bool]:
        ended = _COLUMNS.state.in_([*_HAS_ENDED, BillingState.SET_ASIDE.value])
        return sa.and_(ended, _COLUMNS.due_at <= self._database.now(connection))

    # Instances

    def bind(self, instance_id: InstanceId, subscription_id: str, *, why: str = "") -> None:
        """Record by which subscription a living instance is paid for."""
        is_it = sa.and_(hermes_instances.c.id == instance_id, LIVING)
        column = hermes_instances.c.stripe_subscription_id
        with self._database.writing() as connection:
            row = connection.execute(sa.select(column).where(is_it).with_for_update()).one_or_none()
            if row is None or row.stripe_subscription_id == subscription_id:
                return
            connection.execute(hermes_instances.update().where(is_it).values(stripe_subscription_id=subscription_id))
            before, after = {"subscription": row.stripe_subscription_id}, {"subscription": subscription_id}
            subject = instance_subject(instance_id)
            self._note(connection, "subscription_bound", subject, before=before, after=after, why=why)

    def subscriptions_of(self, user_id: UserId) -> dict[InstanceId, str]:
        """The subscriptions that a user's instances are or were paid by; empty where by none."""
        query = sa.select(hermes_instances.c.id, hermes_instances.c.stripe_subscription_id).where(
            hermes_instances.c.user_id == user_id
        )
        return {InstanceId(row.id): row.stripe_subscription_id or "" for row in self._rows(query)}

    def _lock(self, connection: sa.Connection) -> None:
        """Two rows of one event must not be read at the same time."""
        if not self._database.is_sqlite:
            connection.execute(sa.select(sa.func.pg_advisory_xact_lock(_LOCK)))

    def _outcome_values(self, connection: sa.Connection, outcome: Outcome) -> dict[str, Any]:
        return {
            "state": outcome.state.value,
            "detail": outcome.detail[:_DETAIL],
            "operation_id": outcome.operation_id,
            "due_at": outcome.due_at,
            "decided_at": self._database.now(connection),
        }

    def _note_outcome(
        self, connection: sa.Connection, subject: str, event_ids: Sequence[str], outcome: Outcome
    ) -> None:
        after: dict[str, object] = {"state": outcome.state.value, "events": list(event_ids)}
        if outcome.operation_id:
            after["operation"] = outcome.operation_id
        self._note(connection, "billing_events_decided", subject, after=after, why=outcome.detail[:_DETAIL])


def _subject(number: int) -> str:
    return f"billing/{number}"


def _is_of(user_id: UserId) -> sa.ColumnElement[bool]:
    named = billing_events.alias("named")
    theirs = sa.select(named.c.subscription_id).where(named.c.user_id == user_id)
    return _COLUMNS.subscription_id.in_(theirs)


def _read_values(event_id: str, kind: str, fact: BillingFact | None) -> dict[str, Any]:
    values_of_fact = {} if fact is None else vars(fact)
    names = ("subscription_id", "user_id", "status", "created_at", "started_at", "pause")
    values: dict[str, Any] = {
        "event_id": event_id or None,
        "type": kind or None,
        **{name: values_of_fact.get(name) for name in names},
    }
    values["prices"] = list(fact.prices) if fact else None
    return values


def _event(row: sa.Row[Any]) -> BillingEvent:
    fact = None
    if row.created_at is not None and row.subscription_id:
        fact = BillingFact(
            row.event_id,
            row.type,
            row.subscription_id,
            row.created_at,
            UserId(row.user_id) if row.user_id else None,
            tuple(row.prices or ()),
            row.status or "",
            row.started_at,
            row.pause or "",
        )
    return BillingEvent(
        id=row.id,
        received_at=row.received_at,
        state=BillingState(row.state),
        event_id=row.event_id or "",
        type=row.type or "",
        fact=fact,
        deliveries=row.deliveries,
        detail=row.detail,
        operation_id=OperationId(row.operation_id) if row.operation_id else None,
        due_at=row.due_at,
        decided_at=row.decided_at,
        has_body=bool(row.has_body),
    )
