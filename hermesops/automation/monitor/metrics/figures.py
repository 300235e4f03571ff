"""Figures of the fleet that the registry has: backups, conditions, rollouts, provisions, billing, the users' half."""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.agents.health.fleet import fleet_health
from hermesops.agents.rollout.plan.checks import outdated
from hermesops.automation.monitor.metrics.exposition import Series, series
from hermesops.model.api_figures import UsersHalf
from hermesops.model.billing.events import BillingState
from hermesops.model.chat.caller import NotifiedCallers
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import ExpectedFleet
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.figures import MessagingFigures
from hermesops.model.operation import Operation, OperationKind, OperationStatus
from hermesops.model.rollout.records import RolloutState
from hermesops.store.registry import Registry

PROVISIONS_S = 3600.0
"""Seconds for which a provision that ended is told: the alert about slow ones is of the last hour's."""

_PENDING = (BillingState.QUEUED, BillingState.WAITING, BillingState.SET_ASIDE)


@dataclass(frozen=True)
class Figures:
    """Figures that are read less often than every pass.

    Attributes:
        backed_up_at: When each instance was backed up last; ``None`` for never.
        series: What is told of the fleet beside the monitor's own.
    """

    backed_up_at: Mapping[InstanceId, datetime | None] = field(default_factory=dict)
    series: Mapping[Series, float] = field(default_factory=dict)


def waits(provisions: Iterable[Operation]) -> Iterator[tuple[Operation, float]]:
    """How long users waited for their agents: each provision that is done, and the seconds since the first request.

    A request that is refused halfway ends its operation, and the next is an operation of its own: the user waited since
    the first one.
    """
    begun: dict[str, datetime] = {}
    for provision in sorted(provisions, key=lambda provision: provision.created_at):
        since = begun.setdefault(provision.subject, provision.created_at)
        if provision.status is OperationStatus.DONE:
            del begun[provision.subject]
            yield provision, (provision.updated_at - since).total_seconds()


@dataclass(frozen=True)
class FleetFigures:
    """Reads the fleet's figures from the registry.

    Attributes:
        provisions_s: See ``PROVISIONS_S``.
        agents_dial: Whether agents are handed a connector, so that one without a socket is told of; where the settings
            do not say so, a connector that holds sockets does.
    """

    registry: Registry
    provisions_s: float = PROVISIONS_S
    agents_dial: bool = False

    def read(self, fleet: ExpectedFleet) -> Figures:
        """Figures of backups, instances, rollouts, provisions, billing and the users' half."""
        expected = {instance.id for instance in fleet.instances}
        messaging = self.registry.message_figures.read()
        dialling = expected if self.agents_dial or messaging.has_connector else ()
        return Figures(
            self.registry.backups.newest(),
            {
                **self._conditions(),
                **self._never_backed_up(expected, fleet.now),
                **{
                    series("hermesops_instance_outdated", instance_id=instance.instance_id): 1.0
                    for instance in outdated(self.registry)
                    if instance.instance_id in expected
                },
                **{
                    series("hermesops_break_glass_open", instance_id=access.instance_id): 1.0
                    for access in self.registry.break_glass.list_open()
                },
                **self._rollouts(),
                **self._provisions(fleet.now),
                **self._billing(fleet.now),
                **users_half_series(self.registry.users_half.read()),
                **messaging_series(messaging, dialling),
                **notified_series(self.registry.callers.notified()),
            },
        )

    def _conditions(self) -> dict[Series, float]:
        return {
            series("hermesops_instance_condition", instance_id=instance_id, condition=judgement.condition.value): 1.0
            for instance_id, judgement in fleet_health(self.registry).judgements.items()
        }

    def _never_backed_up(self, expected: Collection[InstanceId], now: datetime) -> dict[Series, float]:
        """As old as the instance: without a figure, the one that would lose most would look as if all were well."""
        return {
            series("hermesops_instance_backup_age_seconds", instance_id=instance_id): (now - created_at).total_seconds()
            for instance_id, created_at in self.registry.backups.never().items()
            if instance_id in expected
        }

    def _rollouts(self) -> dict[Series, float]:
        unfinished = self.registry.rollouts.list(unfinished=True)
        states = {
            series("hermesops_rollout_state", rollout=rollout.id, state=rollout.state.value): 1.0
            for rollout in unfinished
        }
        halted = [rollout for rollout in unfinished if rollout.state is RolloutState.HALTED]
        return states | {series("hermesops_rollout_halted", rollout=rollout.id): 1.0 for rollout in halted}

    def _provisions(self, now: datetime) -> dict[Series, float]:
        provisions = self.registry.operations.list(kind=OperationKind.PROVISION)
        # One that was refused halfway has no operation any more, and its user waits all the same.
        begun = [
            *(operation.created_at for operation in provisions if not operation.status.has_ended),
            *(instance.created_at for instance in self.registry.instances.list(status=InstanceStatus.PROVISIONING)),
        ]
        return {
            series("hermesops_provision_oldest_seconds"): (now - min(begun, default=now)).total_seconds(),
            **{
                series("hermesops_provision_seconds", operation=operation.id): waited_s
                for operation, waited_s in waits(provisions)
                if (now - operation.updated_at).total_seconds() <= self.provisions_s
            },
        }

    def _billing(self, now: datetime) -> dict[Series, float]:
        since = self.registry.billing.oldest_pending()
        return {
            series("hermesops_billing_oldest_seconds", state=state.value): (
                (now - since.get(state, now)).total_seconds()
            )
            for state in _PENDING
        }


def users_half_series(half: UsersHalf) -> dict[Series, float]:
    """Series of the users' half: counts, with services that are known here as their only words. Pure."""
    requests = half.requests
    return {
        series("hermesops_api_processes"): float(half.processes),
        series("hermesops_api_users", kind="all"): float(requests.users),
        series("hermesops_api_users", kind="slow"): float(requests.slow_users),
        series("hermesops_webhooks", outcome="taken"): float(requests.webhooks_taken),
        series("hermesops_webhooks", outcome="refused"): float(requests.webhooks_refused),
        series("hermesops_turns_orphaned_users"): float(half.orphaned_users),
        **{
            series("hermesops_connections_users", service=each.service, state=state): float(count)
            for each in half.connections
            for state, count in (("linked", each.linked), ("expired", each.expired))
        },
    }


def notified_series(callers: NotifiedCallers) -> dict[Series, float]:
    """Series of notifications of tasks: counts of callers. Pure."""
    return {
        series("hermesops_notified_callers", state="delivered"): float(callers.delivered),
        series("hermesops_notified_callers", state="undelivered"): float(callers.undelivered),
    }


def messaging_series(figures: MessagingFigures, expected: Collection[InstanceId]) -> dict[Series, float]:
    """Series of messengers: counts of users, and sockets of the agents that are expected. Pure."""
    states = {name: getattr(figures, name) for name in ("unrouted", "held", "unanswered", "answered")}
    return {
        **{series("hermesops_messages_users", state=state): float(count) for state, count in states.items()},
        **{
            series("hermesops_messenger_users", messenger=each.messenger, state=state): float(getattr(each, state))
            for each in figures.messengers
            for state in ("linked", "blocked", "delivered", "undelivered", "uncertain", "waiting", "refused")
        },
        **{
            series("hermesops_messenger_session", messenger=messenger): float(is_open)
            for messenger, is_open in figures.sessions.items()
        },
        **{
            series("hermesops_instance_socket", instance_id=instance_id): float(is_open)
            for instance_id, is_open in figures.sockets.items()
            if instance_id in expected
        },
    }
