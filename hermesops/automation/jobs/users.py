"""Jobs about users: Stripe's events and subscriptions, users' requests, and agents' connections to services."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta

from hermesops.automation.jobs.reports import reported
from hermesops.automation.jobs.runner import Job, Report
from hermesops.base.narration import counted
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.registry import Registry
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.billing.service import Billing
from hermesops.users.connections.work import ConnectionWork
from hermesops.users.metering.service import Metering
from hermesops.users.subscriptions.plans import PlanStatements
from hermesops.users.subscriptions.sweep import SubscriptionSweep
from hermesops.users.user_requests.carrier import RequestCarrier

BILLING = "billing"
SWEEP = "billing-sweep"
METERS = "metering-check"

_SECOND, _TEN_SECONDS, _MINUTE = timedelta(seconds=1), timedelta(seconds=10), timedelta(minutes=1)
_TEN_MINUTES, _DAY = timedelta(minutes=10), timedelta(days=1)
_SHOWN = 20
"""Differences that a report names."""


@dataclass(frozen=True)
class UserJobs:
    """Declares the jobs about users.

    Attributes:
        connections: Makes the work of connections; it returns ``None`` where no service is offered.
    """

    registry: Registry
    billing: Billing
    user_requests: RequestCarrier
    settings_copying: SettingsCopying
    plan_statements: PlanStatements
    sweep: SubscriptionSweep
    metering: Metering
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
                retry=_TEN_SECONDS,
            ),
            Job(
                "user-requests",
                "carry out what users ask for: subscribe, change settings, end a plan",
                _SECOND,
                self._due_requests,
                self._carry_requests,
                retry=_TEN_SECONDS,
            ),
            Job(
                "settings-copies",
                "copy settings that were changed for the users' API, which has no key to them",
                _SECOND,
                self._uncopied_settings,
                self._copy_settings,
                retry=_TEN_SECONDS,
            ),
            Job(
                "statements",
                "read at Stripe what users' plan pages show",
                _TEN_SECONDS,
                self._due_statements,
                lambda: reported(self.plan_statements.run(), "{} read", "statement"),
                retry=_MINUTE,
            ),
            Job(
                SWEEP,
                "compare all subscriptions at Stripe with what events said, and repair what none told",
                _TEN_MINUTES,
                self._unswept,
                self._sweep,
            ),
            Job(
                "metering",
                "report the use of agents to Stripe's meters",
                timedelta(minutes=5),
                self._unmetered,
                lambda: reported(self.metering.run(), "use of {} reported", "user"),
            ),
            Job(
                METERS,
                "compare the ledger of usage with Stripe's sums",
                _TEN_MINUTES,
                self._uncompared,
                self._compare,
            ),
            Job(
                "connections",
                "follow agents' connections to services, revoke those that ended",
                _TEN_SECONDS,
                self._unconnected,
                self._connect,
                retry=_TEN_SECONDS,
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

    def _uncopied_settings(self) -> list[str]:
        return self.settings_copying.due()

    async def _copy_settings(self) -> Report:
        count = await in_db_thread(self.settings_copying.run)
        return Report(f"settings of {counted(count, 'agent')} copied")

    def _unswept(self) -> list[str]:
        return ["subscriptions at Stripe"] if not self._was_done_today(SWEEP) and self.sweep.is_possible else []

    def _was_done_today(self, name: str) -> bool:
        last = self.registry.jobs.get(name)
        ended_at = last.ended_at if last and not last.problem else None
        return ended_at is not None and self.registry.now() - ended_at < _DAY

    async def _sweep(self) -> Report:
        return Report((await self.sweep.run()).summary)

    def _unmetered(self) -> list[str]:
        return self.metering.due()

    def _uncompared(self) -> list[str]:
        is_due = self.metering.is_on and not self._was_done_today(METERS) and self.metering.at_stripe() is not None
        return ["sums of meters at Stripe"] if is_due else []

    async def _compare(self) -> Report:
        comparison = await self.metering.compare()
        return Report(comparison.summary, "; ".join(comparison.differences[:_SHOWN]))

    def _unconnected(self) -> list[str]:
        work = self.connections()
        return work.due() if work else []

    async def _connect(self) -> Report:
        work = self.connections()
        if work is None:
            return Report("no service is offered here")
        return await reported(work.run(), "{} followed", "connection")
