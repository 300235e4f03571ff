"""The scheduled jobs of an environment."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime
from functools import partial
from math import inf
from typing import Any, Self

from hermesops.agents.backup.drills import Drills
from hermesops.agents.backup.service import Backups
from hermesops.agents.cells.cost.bill import Cost
from hermesops.agents.instances.credentials.tokens import ModelTokens, ProxyTokens
from hermesops.agents.instances.requests.expiry import Upkeep
from hermesops.agents.operator_requests.carrier import OperatorRequestCarrier
from hermesops.agents.pool.previews import PoolPreviews
from hermesops.agents.pool.service import Pools
from hermesops.agents.rollout.service import Rollouts
from hermesops.automation.jobs.asked_run import AskedRun, run_subject
from hermesops.automation.jobs.backups import BackupJobs
from hermesops.automation.jobs.fleet import FleetJobs
from hermesops.automation.jobs.runner import Job, JobScheduler, ManualRun, Report, do_now, do_or_follow, may_begin_at
from hermesops.automation.jobs.users import BILLING, SWEEP, UserJobs
from hermesops.errors import Hint, UnavailableError, UsageError, require_reason
from hermesops.model.operation import JobRun, Lease, Operation, OperationKind, job_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.settings.fields import Settings
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.kinds.fleet import JobRunIntent
from hermesops.store.operations.outcomes import (
    End,
    end_each,
    problems_in,
)
from hermesops.store.operations.runner import Operations
from hermesops.store.registry import Registry
from hermesops.users.agent_settings.copies import SettingsCopying
from hermesops.users.billing.service import Billing
from hermesops.users.connections.work import ConnectionWork
from hermesops.users.metering.service import Metering
from hermesops.users.subscriptions.plans import PlanStatements
from hermesops.users.subscriptions.sweep import SubscriptionSweep, SweepReport
from hermesops.users.user_requests.carrier import RequestCarrier

ALL = "all"


@dataclass(frozen=True)
class JobState:
    """A job with its pending work and its last runs.

    Attributes:
        last: Its last run; ``None`` for never.
        due: What is pending, a few words for each thing; empty as well where that is not known.
        problem: Why it is not known what is pending; ``None`` where it is.
        holder: The process that runs it now; empty for none.
        earliest: When it may begin again; ``None`` for at any time.
        is_late: Whether it may begin now.
        is_chosen: Whether this environment's workers run it.
    """

    job: Job
    last: JobRun | None
    due: tuple[str, ...]
    holder: str
    earliest: datetime | None
    is_late: bool
    is_chosen: bool
    problem: UnavailableError | None = None


@dataclass(frozen=True)
class JobPreview:
    """A run of a job by an operator that was not made.

    Attributes:
        destroys: What it would destroy for good, a line for each.
        cost: Monthly cost before and after; ``None`` where it changes no bill, or subjects were named.
    """

    state: JobState
    destroys: tuple[str, ...]
    cost: Cost | None


@dataclass(frozen=True)
class _Unconnected:
    """Stands for a part that needs a connection which could not be made: any use of it raises the reason."""

    problem: UnavailableError

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - of whatever the part has
        raise self.problem

    def __call__(self) -> Any:  # noqa: ANN401 - as above
        raise self.problem


@dataclass(frozen=True)
class Jobs:
    """Defines the scheduled jobs of one environment and runs them on request."""

    settings: Settings
    registry: Registry
    operations: Operations
    backups: Backups
    drills: Drills
    rollouts: Rollouts
    pools: Pools
    pool_previews: PoolPreviews
    upkeep: Upkeep
    proxy_tokens: ProxyTokens
    model_tokens: ModelTokens
    billing: Billing
    user_requests: RequestCarrier
    operator_requests: OperatorRequestCarrier
    settings_copying: SettingsCopying
    plan_statements: PlanStatements
    sweep: SubscriptionSweep
    metering: Metering
    connections: Callable[[], ConnectionWork | None]

    @classmethod
    def without_connection(cls, settings: Settings, registry: Registry, problem: UnavailableError) -> Self:
        """Jobs that can be listed and not run: of those that need a connection it is not known what is due."""
        missing: Any = _Unconnected(problem)
        parts = {each.name: missing for each in fields(cls)} | {"settings": settings, "registry": registry}
        return cls(**parts)

    def scheduler(self, *, grace_s: float) -> JobScheduler:
        """Runs the jobs of a worker.

        Args:
            grace_s: Seconds for running jobs to end after a stop was requested.
        """
        return JobScheduler(self.chosen(), self.registry, grace_s=grace_s)

    def all(self) -> dict[str, Job]:
        """Build every job of the environment, by name."""
        registry, operations = self.registry, self.operations
        fleet = FleetJobs(
            self.settings,
            registry,
            operations,
            self.rollouts,
            self.pools,
            self.pool_previews,
            self.upkeep,
            self.proxy_tokens,
            self.model_tokens,
            self.operator_requests,
        )
        backups = BackupJobs(registry, operations, self.backups, self.drills)
        return {job.name: job for job in (*fleet.all(), *backups.all(), *self._users.all())}

    @property
    def _users(self) -> UserJobs:
        return UserJobs(
            self.registry,
            self.billing,
            self.user_requests,
            self.settings_copying,
            self.plan_statements,
            self.sweep,
            self.metering,
            self.connections,
        )

    def named(self, name: str) -> Job:
        """One job.

        Raises:
            UsageError: There is none of that name.
        """
        jobs = self.all()
        if name not in jobs:
            raise unknown_name("job", name, jobs)
        return jobs[name]

    def chosen(self) -> list[Job]:
        """The jobs that this environment's workers run.

        Raises:
            UsageError: The setting ``without_jobs`` names one that there is not.
        """
        without = self.settings.without_jobs
        left_out = {name.strip() for name in without.split(",") if name.strip()}
        if ALL in left_out:
            return []
        for name in left_out:
            self.named(name)
        return [job for name, job in self.all().items() if name not in left_out]

    def states(self) -> list[JobState]:
        """Every job with its pending work and its last runs.

        Raises:
            UsageError: As ``chosen``.
        """
        chosen = {job.name for job in self.chosen()}
        leases = {lease.subject: lease.holder for lease in self.registry.leases.list()}
        now = self.registry.now()

        def state(job: Job) -> JobState:
            last = self.registry.jobs.get(job.name)
            earliest = may_begin_at(last, job.rest, job.retry)
            is_late = earliest is None or earliest <= now
            holder = leases.get(job_subject(job.name), "")
            due, problem = _due_of(job)
            return JobState(job, last, due, holder, earliest, is_late, job.name in chosen, problem)

        return [state(job) for job in self.all().values()]

    def prepare(self, name: str, subjects: Sequence[str] = (), *, reason: str = "") -> ManualRun:
        """One run of a job for an operator, whenever it ran last.

        Args:
            subjects: What it shall be about, as cells of ``pools``; empty for all that is due.
            reason: Why, for the audit of what it destroys; empty for the rule that the job follows.

        Raises:
            UsageError: There is none of that name, it takes no subjects, or one of them is not there.
        """
        job = self.named(name)
        if subjects and not job.subjects:
            raise UsageError(
                f"job {name} takes no names: it runs for everything that is due", hint=Hint(("job", "run", name))
            )
        return job.manual(subjects, reason) if job.manual else ManualRun(job.do)

    async def preview(self, name: str, subjects: Sequence[str] = ()) -> JobPreview:
        """A run for an operator that is not made; raises as ``prepare``, and changes nothing."""
        manual = await in_db_thread(self.prepare, name, subjects)
        state = next(state for state in await in_db_thread(self.states) if state.job.name == name)
        cost = await state.job.cost() if state.job.cost and not subjects else None
        return JobPreview(state, tuple(manual.destroys), cost)

    async def run(self, name: str, manual: ManualRun, end: End, *, follows: bool = False) -> Report:
        """Do one run of a job now, and end the operations that it opened.

        Args:
            end: Brings them to their end, or leaves them to the workers.
            follows: Whether to wait for another process that runs it, and to return the result of that run.

        Raises:
            LeaseHeldError: Another process does it.
            HermesError: It failed; its row has the problem.
        """
        job = replace(self.named(name), do=manual.do)
        if follows:
            report = await do_or_follow(job, self.registry, self.operations.report, is_whole=manual.is_whole)
        else:
            report = await do_now(job, self.registry)
        if not any(outcome.operation for outcome in report.outcomes):
            return report
        # Without the job's lease: workers do it for others while one waits here.
        outcomes = await end_each(report.outcomes, end)
        done = "; ".join(outcome.done for outcome in outcomes if outcome.done)
        return Report(done, problems_in(outcomes), outcomes)

    def open_run(self, name: str, *, reason: str) -> Operation:
        """Open the operation of one run, or find the one that has not ended.

        Raises:
            UsageError: There is no job of that name, or no reason.
        """
        require_reason(reason, "job", "run", name)
        intent = JobRunIntent(job=self.named(name).name, reason=reason).to_json()
        return self.registry.operations.open(OperationKind.JOB_RUN, run_subject(name), intent=intent)

    def run_of(self, operation: Operation, _lease: Lease) -> AskedRun:
        """The workflow of a run, from its row."""
        intent = JobRunIntent.of(operation)
        end = partial(self.operations.resume, wait_s=inf)

        async def run() -> Report:
            return await self.run(intent.job, self.prepare(intent.job, reason=intent.reason), end, follows=True)

        return AskedRun(intent.job, run)

    async def bill_everybody(self) -> Report:
        """Run the job ``billing`` now, also for users whose events are to wait longer.

        Raises:
            LeaseHeldError: Another process does it.
            HermesError: It failed; its row has the problem.
        """
        job = replace(self.named(BILLING), do=partial(self._users.bill, everybody=True))
        return await do_now(job, self.registry)

    async def sweep_now(self) -> SweepReport:
        """Run the job ``billing-sweep`` now; returns all of its result.

        Raises:
            LeaseHeldError: Another process does it.
            HermesError: It failed; its row has the problem.
        """
        reports: list[SweepReport] = []

        async def sweep() -> Report:
            reports.append(await self.sweep.run())
            return Report(reports[0].summary)

        await do_now(replace(self.named(SWEEP), do=sweep), self.registry)
        return reports[0]


def _due_of(job: Job) -> tuple[tuple[str, ...], UnavailableError | None]:
    """The pending work of a job, or why it is not known: another job's is."""
    try:
        return tuple(job.due()), None
    except UnavailableError as error:
        return (), error
