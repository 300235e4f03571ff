"""Runs scheduled jobs: the first worker that finds a due job does it, one worker at a time.

What is due follows from the rows that a job is about, never from a record of having done it. What is recorded is when a
job last began, so that one that fails is not begun over and over. ``hermesops.app`` composes the jobs.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import datetime, timedelta

import structlog

from hermesops.agents.cells.cost.bill import Cost
from hermesops.base import waiting
from hermesops.errors import HermesError, Hint, UnavailableError
from hermesops.model.operation import JobRun, LeaseHeldError, job_subject
from hermesops.store.operations.leases.holder import is_gone
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.leases.under_way import in_words
from hermesops.store.operations.outcomes import Outcome
from hermesops.store.registry import Registry

RETRY = timedelta(minutes=5)
"""How long a failed job rests, unless it says otherwise."""

AFTER_DEATH = timedelta(seconds=30)
"""How long a job rests, from its begin, after its worker died, perhaps because of it."""

_TICK_S = 1.0
_FOLLOW_S = 0.5
"""Seconds between two looks at a run of another process."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True)
class Report:
    """The result of one run of a job.

    Attributes:
        problem: What was not done, and why; empty when all of it was.
        outcomes: For each thing that was due, where the job tells them apart.
    """

    done: str
    problem: str = ""
    outcomes: tuple[Outcome, ...] = ()


@dataclass(frozen=True)
class ManualRun:
    """One run of a job that an operator asked for.

    Attributes:
        do: Does it. Operations that it opens are in the report, for the operator to wait for or to leave.
        destroys: Things that it destroys for good, a line for each.
        consent: What it destroys in a few words, as ``destroys 2 machines``.
        is_whole: Whether it is about all that is due, as a worker's run; else it is about subjects that were named.
    """

    do: Callable[[], Awaitable[Report]]
    destroys: tuple[str, ...] = ()
    consent: str = ""
    is_whole: bool = True


@dataclass(frozen=True)
class Job:
    """Something that falls due.

    Attributes:
        every: Interval between checks whether it is due.
        due: Says from the rows what is due, a few words for each thing; empty when nothing is.
        manual: Prepares a run for an operator, who may name its subjects, and gives the reason for the audit; ``None``
            where it is the run of workers, for all that is due.
        subjects: What an operator may name, in the plural; empty where it is done for all that is due.
        rest: From the begin of one turn to the next at least, where the rows do not say it.
        retry: From the end of a turn that failed to the next; short where users wait for it and its subjects have
            pauses of their own, since one subject's failure, or a restart of the database, holds all of them.
        longest: How long one turn may take; then it is cut short, so that another may begin.
        cost: Monthly cost before and after a run for all that is due; ``None`` where it changes no bill.
    """

    name: str
    what: str
    every: timedelta
    due: Callable[[], Sequence[str]]
    do: Callable[[], Awaitable[Report]]
    manual: Callable[[Sequence[str], str], ManualRun] | None = None
    subjects: str = ""
    rest: timedelta = timedelta()
    retry: timedelta = RETRY
    longest: timedelta = timedelta(hours=1)
    cost: Callable[[], Awaitable[Cost]] | None = None


def may_begin_at(last: JobRun | None, rest: timedelta, retry: timedelta = RETRY) -> datetime | None:
    """From when on a job may be begun; ``None`` for at any time. Pure. ``rest`` and ``retry`` as of ``Job``."""
    if last is None:
        return None
    if last.ended_at is None:
        return last.began_at + AFTER_DEATH
    return last.ended_at + retry if last.problem else last.began_at + rest


async def do_now(job: Job, registry: Registry) -> Report:
    """Run a job now, whenever it last ran.

    Raises:
        LeaseHeldError: Another process does it; the message names it and the begin of its run.
        HermesError: It failed; its row has the problem.
    """
    async with AsyncExitStack() as stack:
        try:
            keeper = await stack.enter_async_context(LeaseKeeper(registry, job_subject(job.name)))
        except LeaseHeldError as held:
            raise _under_way(job, registry, held) from None
        return await _turn(job, registry, keeper)


def _under_way(job: Job, registry: Registry, error: LeaseHeldError) -> LeaseHeldError:
    if not error.holder:
        return error
    last = registry.jobs.get(job.name)
    since = f" since {last.began_at:%Y-%m-%d %H:%M} UTC" if last and last.ended_at is None else ""
    words = in_words(f"job {job.name}", None, error.holder)
    return LeaseHeldError(f"{words}{since}", hint=Hint(("job", "list"), "shows its end"), holder=error.holder)


async def do_or_follow(job: Job, registry: Registry, report: Callable[[str], None], *, is_whole: bool = True) -> Report:
    """Run a job now; where another process runs it, wait for the end of that run, and return its result.

    Args:
        is_whole: Whether the result of another process's run is the one that is asked for; else the job runs here
            after it.

    Raises:
        HermesError: It failed; its row has the problem.
    """
    begin, reported = registry.now(), ""
    while True:
        try:
            return await do_now(job, registry)
        except LeaseHeldError as held:
            if held.message != reported:
                reported = held.message
                report(f"follows: {reported}")
        while _is_held(job, registry):
            await waiting.pause(_FOLLOW_S)
        last = registry.jobs.get(job.name)
        if is_whole and last is not None and last.ended_at is not None and last.ended_at >= begin:
            return Report(last.done, last.problem)


def _is_held(job: Job, registry: Registry) -> bool:
    subject = job_subject(job.name)
    return any(lease.subject == subject and not is_gone(lease.holder) for lease in registry.leases.list())


async def _turn(job: Job, registry: Registry, keeper: LeaseKeeper) -> Report:
    registry.jobs.begin(job.name, lease=keeper.lease)
    try:
        report = await keeper.guard(_done(job))
    except Exception as error:
        problem = error.message if isinstance(error, HermesError) else f"a bug: {type(error).__name__}: {error}"
        with contextlib.suppress(HermesError):  # a note for people; the error itself matters more
            registry.jobs.end(job.name, done="", problem=problem, lease=keeper.lease)
        raise
    registry.jobs.end(job.name, done=report.done, problem=report.problem, lease=keeper.lease)
    return report


async def _done(job: Job) -> Report:
    """Do it within its time.

    Raises:
        UnavailableError: It was cut short.
        HermesError: It could not be done.
    """
    try:
        async with asyncio.timeout(job.longest.total_seconds()) as limit:
            return await job.do()
    except TimeoutError:
        if not limit.expired():
            raise
    raise UnavailableError(f"{job.name} took longer than {job.longest} and was cut short")


class JobScheduler:
    """Runs jobs until a stop is requested.

    Args:
        grace_s: Seconds for running jobs to end after a stop was requested; then they are cancelled.
    """

    def __init__(self, jobs: Sequence[Job], registry: Registry, *, grace_s: float) -> None:
        self._jobs = {job.name: job for job in jobs}
        self._registry = registry
        self._grace_s = grace_s
        self._stopping = asyncio.Event()
        self._turns: dict[str, asyncio.Task[None]] = {}
        self._next_check: dict[str, datetime] = {}

    def stop(self) -> None:
        """Begin no other turn, and return from ``run``; called again, cut those under way short."""
        if self._stopping.is_set():
            for turn in self._turns.values():
                turn.cancel()
        self._stopping.set()

    @property
    def is_stopping(self) -> bool:
        """Whether a stop was requested; jobs that are running still end."""
        return self._stopping.is_set()

    async def run(self) -> None:
        """Check and run jobs until a stop is requested; errors of jobs and of the registry are logged."""
        while not self._stopping.is_set():
            try:
                self._start_due()
            except HermesError as error:
                _log.warning("jobs_wait", problem=error.message)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), _TICK_S)
        await waiting.finish(self._turns.values(), self._grace_s)

    def _start_due(self) -> None:
        now = self._registry.now()
        for name, job in self._jobs.items():
            if name not in self._turns and now >= self._next_check.get(name, now):
                self._next_check[name] = now + job.every
                turn = asyncio.create_task(self._tried(job))
                self._turns[name] = turn
                turn.add_done_callback(lambda _, name=name: self._turns.pop(name))  # type: ignore[misc] # mypy types no default

    async def _tried(self, job: Job) -> None:
        try:
            report = await self._when_due(job)
        except LeaseHeldError:
            return  # another worker does it
        except HermesError as error:
            _log.warning("job_failed", job=job.name, problem=error.message)
        except Exception:  # noqa: BLE001 - a bug in one job keeps no other from being done; its turn and the log say it
            _log.exception("job_broke", job=job.name)
        else:
            if report is not None:
                log = _log.warning if report.problem else _log.info
                log("job_done", job=job.name, done=report.done, problem=report.problem)

    async def _when_due(self, job: Job) -> Report | None:
        if self._is_too_early(job) or not await asyncio.to_thread(job.due):
            return None
        async with LeaseKeeper(self._registry, job_subject(job.name)) as keeper:
            # Another worker may have done it between the check and the lease.
            if self._is_too_early(job) or not await asyncio.to_thread(job.due):
                return None
            return await _turn(job, self._registry, keeper)

    def _is_too_early(self, job: Job) -> bool:
        from_when = may_begin_at(self._registry.jobs.get(job.name), job.rest, job.retry)
        return from_when is not None and self._registry.now() < from_when
