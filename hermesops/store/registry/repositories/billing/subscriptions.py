"""Subscriptions, as Stripe's events and Stripe itself state them, and the instances that they pay for."""

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from datetime import timedelta
from typing import Any

import sqlalchemy as sa

from hermesops.model.billing.events import BillingFact, BillingState
from hermesops.model.ids import InstanceId, UserId, instance_subject
from hermesops.store.registry.repositories.base import Repository, insert_if_absent
from hermesops.store.registry.repositories.billing.rows import EVENTS, event_of, read_values
from hermesops.store.registry.schema.tables import LIVING, billing_events, hermes_instances
from hermesops.store.registry.schema.user_tables import metered_usage, user_plans

_COLUMNS = billing_events.c

_USAGE_RESTS = timedelta(hours=1)
"""Usage is reported all day: a statement is not read anew for each event of it."""

_SEEN = "it was read at Stripe, and no event had said it"


class SubscriptionRepository(Repository):
    """Facts about subscriptions, their users, and the instances that they pay for."""

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

    def facts_of(self, subscription_ids: Collection[str]) -> Mapping[str, Sequence[BillingFact]]:
        """What events said of these subscriptions, each in the order in which they came."""
        is_it = sa.and_(_COLUMNS.subscription_id.in_(list(subscription_ids)), _COLUMNS.created_at.is_not(None))
        facts: defaultdict[str, Any] = defaultdict(tuple)
        for row in self._rows(EVENTS.where(is_it).order_by(_COLUMNS.id)):
            if (fact := event_of(row).fact) is not None:
                facts[fact.subscription_id] += (fact,)
        return facts

    def add_seen(self, fact: BillingFact) -> bool:
        """Add the state of a subscription that no event said, to be applied as an event; whether it is new.

        Args:
            fact: Its ``event_id`` is ours, and the same for the same state read at the same time.
        """
        with self._database.writing() as connection:
            now = self._database.now(connection)
            values = {**read_values(fact.event_id, fact.type, fact), "received_at": now, "detail": _SEEN}
            values["state"] = BillingState.WAITING.value
            if not insert_if_absent(connection, billing_events, values):
                return False
            after = {"subscription": fact.subscription_id, "status": fact.status, "prices": list(fact.prices)}
            self._note(connection, "subscription_read", f"user/{fact.user_id}", after=after, why=_SEEN)
        return True

    def paying(self) -> dict[InstanceId, str]:
        """The subscription that pays for each living instance that has one."""
        column = hermes_instances.c.stripe_subscription_id
        query = sa.select(hermes_instances.c.id, column).where(LIVING, column.is_not(None), column != "")
        return {InstanceId(row.id): row.stripe_subscription_id for row in self._rows(query)}

    def of_user(self, user_id: UserId) -> dict[InstanceId, str]:
        """The subscriptions that a user's instances are or were paid by; empty where by none."""
        query = sa.select(hermes_instances.c.id, hermes_instances.c.stripe_subscription_id).where(
            hermes_instances.c.user_id == user_id
        )
        return {InstanceId(row.id): row.stripe_subscription_id or "" for row in self._rows(query)}

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
