"""Jobs about users: Stripe's events and subscriptions, users' requests, and agents' connections to services."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from hermesops.automation.jobs.reports import reported
from hermesops.automation.jobs.runner import Job, Report
from hermesops.store.registry import Registry
from hermesops.users.billing.service import Billing
from hermesops.users.connections.work import ConnectionWork
from hermesops.users.subscriptions.plans import PlanStatements
from hermesops.users.subscriptions.sweep import SubscriptionSweep
from hermesops.users.user_requests.carrier import RequestCarrier

BILLING = "billing"
SWEEP = "billing-sweep"

_TEN_SECONDS, _DAY = timedelta(seconds=10), timedelta(days=1)


@dataclass(frozen=True)
class UserJobs:
    """Declares the jobs about users.

    Attributes:
        connections: Makes the work of connections; it returns ``None`` where no service is offered.
    """

    registry: Registry
    billing: Billing
    user_requests: RequestCarrier
    plan_statements: PlanStatements
    sweep: SubscriptionSweep
    connections: Callable[[], ConnectionWork | None]

    def all(self) -> tuple[Job, ...]:
        """Every job about users, in the order of ``job list``."""
        return (
            Job(
                BILLING,
                "read Stripe's events, and bring agents to what is paid for",
                _TEN_SECONDS,
                self._unbilled,
                self.bill,
            ),
            Job(
                "user-requests",
                "carry out what users ask for: subscribe, change settings, end a plan",
                timedelta(seconds=1),
                self._due_requests,
                self._carry_requests,
            ),
            Job(
                "statements",
                "read at Stripe what users' plan pages show",
                _TEN_SECONDS,
                self._due_statements,
                lambda: reported(self.plan_statements.run(), "{} read", "statement"),
            ),
            Job(
                SWEEP,
                "compare all subscriptions at Stripe with what events said, and repair what none told",
                timedelta(minutes=10),
                self._unswept,
                self._sweep,
            ),
            Job(
                "connections",
                "follow agents' connections to services, revoke those that ended",
                _TEN_SECONDS,
                self._unconnected,
                self._connect,
            ),
        )

    def _unbilled(self) -> list[str]:
        return self.billing.due()

    async def bill(self, *, everybody: bool = False) -> Report:
        """Do the job ``billing``; of ``everybody``, though their events are to wait longer."""
        return Report(await self.billing.run(everybody=everybody))

    def _due_requests(self) -> list[str]:
        return self.user_requests.due()

    async def _carry_requests(self) -> Report:
        return Report(await self.user_requests.run())

    def _due_statements(self) -> list[str]:
        return self.plan_statements.due()

    def _unswept(self) -> list[str]:
        last = self.registry.jobs.get(SWEEP)
        ended_at = last.ended_at if last and not last.problem else None
        is_fresh = ended_at is not None and self.registry.now() - ended_at < _DAY
        return ["subscriptions at Stripe"] if not is_fresh and self.sweep.is_possible else []

    async def _sweep(self) -> Report:
        return Report((await self.sweep.run()).summary)

    def _unconnected(self) -> list[str]:
        work = self.connections()
        return work.due() if work else []

    async def _connect(self) -> Report:
        work = self.connections()
        if work is None:
            return Report("no service is offered here")
        return await reported(work.run(), "{} followed", "connection")
