"""The scheduled jobs of an environment."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any, Self

from hermesops.agents.backup.drills import Drills
from hermesops.agents.backup.service import Backups
from hermesops.agents.instances.credentials.tokens import ModelTokens, ProxyTokens
from hermesops.agents.instances.requests.expiry import Due, Upkeep
from hermesops.agents.pool.service import Pools
from hermesops.agents.rollout.plan.backlog import requests_for
from hermesops.agents.rollout.plan.checks import updatable, usual_spec
from hermesops.agents.rollout.plan.requests import RolloutRequest
from hermesops.agents.rollout.service import Rollouts
from hermesops.automation.jobs.runner import Job, JobScheduler, ManualRun, Report, do_now, do_or_follow, may_begin_at
from hermesops.base.fan_out import Limits, problems
from hermesops.base.narration import counted
from hermesops.errors import HermesError, Hint, PartlyDoneError, UnavailableError, UsageError, problem_of
from hermesops.model.ids import CellName
from hermesops.model.operation import JobRun, job_subject
from hermesops.model.unknown_name import unknown_name
from hermesops.settings.fields import Settings
from hermesops.store.operations.db_thread import in_db_thread
from hermesops.store.operations.outcomes import (
    End,
    Outcome,
    end_each,
    failure_of,
    outcome_of,
    outcomes_of,
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
SWEEP = "billing-sweep"
METERS = "metering-check"

_MINUTE, _HOUR, _DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
_RECORDS = "recovery-records"
_SHOWN = 20
"""Differences that a report names."""

_ONE_BY_ONE = Limits(at_once=1, slow_after_s=600.0, within_s=3600.0)
"""Of repositories: forgetting and pruning is the object store's work."""


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
    upkeep: Upkeep
    proxy_tokens: ProxyTokens
    model_tokens: ModelTokens
    billing: Billing
    user_requests: RequestCarrier
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
        jobs = (
            Job(
                "backups",
                "back up agents whose turn of the day has come",
                _MINUTE,
                lambda: [instance.title for instance in self.backups.nightly.due()],
                lambda: _reported(self.backups.nightly.run(), "{} backed up", "agent"),
                longest=timedelta(hours=8),
            ),
            Job(
                "lifecycle",
                "end agents whose grace is over, give left machines back",
                10 * _MINUTE,
                self._ends,
                lambda: self._end(self.upkeep.due()),
                self._end_by_hand,
                longest=timedelta(hours=8),
            ),
            Job(
                "billing",
                "read Stripe's events, and bring agents to what is paid for",
                timedelta(seconds=10),
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
                "settings-copies",
                "copy settings that were changed for the users' API, which has no key to them",
                timedelta(seconds=1),
                self._uncopied_settings,
                self._copy_settings,
            ),
            Job(
                "statements",
                "read at Stripe what users' plan pages show",
                timedelta(seconds=10),
                self._due_statements,
                lambda: _reported(self.plan_statements.run(), "{} read", "statement"),
            ),
            Job(
                SWEEP,
                "compare all subscriptions at Stripe with what events said, and repair what none told",
                10 * _MINUTE,
                self._unswept,
                self._sweep,
            ),
            Job(
                "metering",
                "report the use of agents to Stripe's meters",
                5 * _MINUTE,
                self._unmetered,
                lambda: _reported(self.metering.run(), "use of {} reported", "user"),
            ),
            Job(
                METERS,
                "compare the ledger of usage with Stripe's sums",
                10 * _MINUTE,
                self._uncompared,
                self._compare,
            ),
            Job(
                "connections",
                "follow agents' connections to services, revoke those that ended",
                timedelta(seconds=10),
                self._unconnected,
                self._connect,
            ),
            Job(
                "tokens",
                "renew the platform's proxy tokens, revoke those unused",
                _MINUTE,
                self._old_tokens,
                lambda: _reported(self.proxy_tokens.renew_due(), "{} renewed", "token"),
            ),
            Job(
                "model-tokens",
                "hand agents a fresh token for the model router before theirs runs out",
                _MINUTE,
                lambda: [instance.title for instance in self.model_tokens.due()],
                lambda: _reported(self.model_tokens.renew_due(), "a model token was handed to {}", "agent"),
            ),
            Job(
                "model-budgets",
                "tell model routers what agents may use in a month",
                10 * _MINUTE,
                lambda: [plan.value for plan in self.model_tokens.plans_due()],
                self._write_budgets,
            ),
            Job(
                "pools",
                "fill or shrink warm pools to their size",
                _MINUTE,
                self._short_pools,
                lambda: self._left(self._open_fills(self._short_pools())),
                self._fill_by_hand,
                subjects="cells",
            ),
            Job(
                "outdated",
                "deploy releases to instances that a rollout missed or that came later",
                10 * _MINUTE,
                lambda: [instance.user for instance in updatable(self.registry)],
                self._deploy_outdated,
                rest=timedelta(hours=6),
            ),
            Job(
                "drill",
                "restore a backup onto a machine, for proof",
                10 * _MINUTE,
                self._undrilled,
                lambda: self._left(self._open_drill()),
                self._drill_by_hand,
            ),
            Job(
                "prune",
                "take away backups that no rule keeps",
                timedelta(hours=6),
                lambda: [instance.title for instance in self.backups.pruning.due()],
                self._prune,
                rest=timedelta(days=7),
            ),
            Job(
                _RECORDS,
                "keep what opens backups and data volumes where it outlives the registry",
                _MINUTE,
                self._unrecorded,
                lambda: _reported(self.backups.records.save_all(), "recovery records of {} are up to date", "agent"),
            ),
            Job(
                "ended",
                "take away backups of agents that ended long ago",
                timedelta(hours=1),
                lambda: [instance.id for instance in self.backups.ended.due()],
                self._erase,
            ),
        )
        return {job.name: job for job in jobs}

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
            earliest = may_begin_at(last, job.rest)
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
        destroying = {"prune": self._prune_by_hand, "ended": self._erase_by_hand}
        if name in destroying:
            return destroying[name](reason)
        return job.manual(subjects) if job.manual else ManualRun(job.do)

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

    async def bill_everybody(self) -> Report:
        """Run the job ``billing`` now, also for users whose events are to wait longer.

        Raises:
            LeaseHeldError: Another process does it.
            HermesError: It failed; its row has the problem.
        """
        job = replace(self.named("billing"), do=partial(self.bill, everybody=True))
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

    async def _write_budgets(self) -> Report:
        await in_db_thread(self.model_tokens.write_budgets)
        return Report("model routers read the budgets within seconds")

    # Backups

    async def _prune(self, reason: str = "") -> Report:
        pruning = self.backups.pruning
        prune = partial(pruning.prune, why=reason)
        problem_by_subject = await problems(
            {instance.title: instance.id for instance in pruning.due()}, prune, _ONE_BY_ONE
        )
        return _report(problem_by_subject, "backups of {} pruned", "agent")

    def _prune_by_hand(self, reason: str) -> ManualRun:
        due = [
            f"{instance.title}: its backups that no rule keeps are deleted" for instance in self.backups.pruning.due()
        ]
        return ManualRun(partial(self._prune, reason), tuple(due), f"deletes backups of {counted(len(due), 'agent')}")

    async def _erase(self, reason: str = "") -> Report:
        ended = self.backups.ended
        erase = partial(ended.erase, why=reason)
        problem_by_subject = await problems(
            {str(instance.id): instance for instance in ended.due()}, erase, _ONE_BY_ONE
        )
        return _report(problem_by_subject, "backups of {} erased", "ended agent")

    def _erase_by_hand(self, reason: str) -> ManualRun:
        due = [
            f"{instance.title} ({instance.id}): all its backups are deleted" for instance in self.backups.ended.due()
        ]
        consent = f"deletes all backups of {counted(len(due), 'ended agent')}"
        return ManualRun(partial(self._erase, reason), tuple(due), consent)

    def _unrecorded(self) -> list[str]:
        last = self.registry.jobs.get(_RECORDS)
        ended_at = last.ended_at if last and not last.problem else None
        is_fresh = ended_at is not None and self.registry.now() - ended_at < _HOUR
        if is_fresh or not self.backups.store.holds_anything:
            return []
        return [instance.title for instance in self.registry.instances.list()]

    # Rollouts

    async def _deploy_outdated(self) -> Report:
        problem_by_subject = {}
        spec = usual_spec(self.settings)
        for request in requests_for(updatable(self.registry), "outdated", spec):
            problem_by_subject[f"{request.release} to {request.where}"] = await problem_of(self._begin(request))
        return _report(problem_by_subject, "{} left to the workers", "rollout")

    async def _begin(self, request: RolloutRequest) -> None:
        self.rollouts.leave(await self.rollouts.start(request))

    # Drills

    def _undrilled(self) -> list[str]:
        instance = self.drills.due()
        return [instance.title] if instance else []

    async def _open_drill(self) -> Report:
        instance = self.drills.due()
        if instance is None:
            return Report("no drill is due")
        operation = await self.drills.open(instance, why="weekly")
        done = f"a drill of the newest backup of {instance.title} has begun"
        return Report(done, outcomes=(Outcome(instance.title, operation),))

    def _drill_by_hand(self, _: Sequence[str]) -> ManualRun:
        return ManualRun(self._open_drill)

    # Tokens

    def _old_tokens(self) -> list[str]:
        due = self.proxy_tokens.due()
        return [*due.renew, *(f"{token.purpose} of {token.machine_id}" for token in due.drop)]

    # Lives

    def _ends(self) -> list[str]:
        due = self.upkeep.due()
        return [*(instance.title for instance in due.ends), *(row.name for row in due.leaves)]

    async def _end(self, due: Due) -> Report:
        return _report(await self.upkeep.apply(due), "{} destroyed", "machine")

    def _end_by_hand(self, _: Sequence[str]) -> ManualRun:
        due = self.upkeep.due()  # once: what falls due after the operator's consent waits for the next run
        ends = (
            f"{instance.title}: its days of grace are over; machine {instance.machine_name} is destroyed"
            for instance in due.ends
        )
        leaves = (f"{row.name}: unassigned; it will be destroyed" for row in due.leaves)
        destroys = (*ends, *leaves)
        return ManualRun(lambda: self._end(due), destroys, f"destroys {counted(len(destroys), 'machine')}")

    # Billing

    def _unbilled(self) -> list[str]:
        return self.billing.due()

    async def bill(self, *, everybody: bool = False) -> Report:
        """Do the job ``billing``; of ``everybody``, though their events are to wait longer."""
        return Report(await self.billing.run(everybody=everybody))

    def _due_requests(self) -> list[str]:
        return self.user_requests.due()

    def _uncopied_settings(self) -> list[str]:
        return self.settings_copying.due()

    async def _copy_settings(self) -> Report:
        count = await in_db_thread(self.settings_copying.run)
        return Report(f"settings of {counted(count, 'agent')} copied")

    def _due_statements(self) -> list[str]:
        return self.plan_statements.due()

    async def _carry_requests(self) -> Report:
        return Report(await self.user_requests.run())

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

    # Connections

    def _unconnected(self) -> list[str]:
        work = self.connections()
        return work.due() if work else []

    async def _connect(self) -> Report:
        work = self.connections()
        if work is None:
            return Report("no service is offered here")
        return await _reported(work.run(), "{} followed", "connection")

    # Pools

    def _short_pools(self) -> list[CellName]:
        return self.pools.short()

    async def _open_fills(self, cells: Sequence[CellName]) -> Report:
        """Open the operations that fill pools. They take minutes, and other jobs shall not wait for that."""
        if not cells:
            return Report("no pool is to be filled: there is no cell, and the setting pool_size asks for none")
        outcomes = tuple([await outcome_of(cell, self._open_fill(cell)) for cell in cells])
        opened = [outcome.subject for outcome in outcomes if not outcome.problem]
        done = f"{counted(len(opened), 'pool')} left to be filled: {', '.join(opened)}"
        return Report(done, problems_in(outcomes), outcomes)

    async def _open_fill(self, cell: CellName) -> Outcome:
        return Outcome(cell, self.pools.open(cell))

    def _fill_by_hand(self, names: Sequence[str]) -> ManualRun:
        """Of the named cells or of all, also where rows alone say that nothing is missing."""
        cells = [cell.name for cell in self.pools.cells(names, opening=True)]
        return ManualRun(lambda: self._open_fills(cells), is_whole=not names)

    async def _left(self, opening: Awaitable[Report]) -> Report:
        """Leave a job's operations to the workers."""
        report = await opening
        for outcome in report.outcomes:
            if outcome.operation:
                self.operations.leave(outcome.operation)
        return report


def failure(name: str, report: Report, subjects: Sequence[str] = ()) -> HermesError | None:
    """The error of a run that did not do all; ``None`` when it did."""
    again = Hint(("job", "run", name, *subjects), "again")
    if report.outcomes:
        return failure_of(report.outcomes, f"job {name}", hint=again)
    return PartlyDoneError(f"job {name}: {report.problem}", hint=again) if report.problem else None


def _due_of(job: Job) -> tuple[tuple[str, ...], UnavailableError | None]:
    """The pending work of a job, or why it is not known: another job's is."""
    try:
        return tuple(job.due()), None
    except UnavailableError as error:
        return (), error


async def _reported(doing: Awaitable[Mapping[str, str]], words: str, noun: str) -> Report:
    return _report(await doing, words, noun)


def _report(reasons: Mapping[str, str], words: str, noun: str) -> Report:
    """The report of work without operations; the number of what was done stands in ``words``, with its noun."""
    outcomes = outcomes_of(reasons)
    done = counted(sum(1 for why in reasons.values() if not why), noun)
    return Report(words.format(done), problems_in(outcomes), outcomes)
