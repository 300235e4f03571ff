"""Deploys to one machine: fetch, back up, activate, watch, confirm or roll back.

Work on a target may end at any moment, by a crash too: its machine reports its progress to the next runner.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar

from hermesops.agents.rollout.ports import Machines
from hermesops.agents.rollout.records.store import RolloutRows
from hermesops.agents.rollout.target.decision import Settle, TargetObservation, TargetStep, decide_target, deferral
from hermesops.base.waiting import cancel, pause
from hermesops.errors import (
    HermesError,
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
    problem_of,
)
from hermesops.model.operation import LeaseHeldError
from hermesops.model.rollout.records import ReleaseStatus, Rollout, RolloutTarget, TargetState

POLL_S = 1.0
"""Seconds between two observations of a machine that is changing, and between two reads of the rollout's state."""

_OBSERVE_S = 60.0
"""Seconds after which a machine that is asked has not answered."""

_OVERTIME_S = 30.0
"""Seconds beyond a target's ``attempt_s`` after which a step that has not ended is left to its machine."""

_NOTICE_S = 60.0
"""Seconds that a changing machine has to take notice of an abort."""

T = TypeVar("T")


@dataclass
class Deployment:
    """The deployment of a rollout's release to one target.

    Attributes:
        target: As it was written last.
        is_ending: Whether an untouched target is not to be touched any more, and a touched one is to go back.
        is_aborted: Whether the rollout is.
    """

    rows: RolloutRows
    machines: Machines
    now: Callable[[], datetime]
    rollout: Rollout
    target: RolloutTarget
    is_ending: Callable[[RolloutTarget], bool]
    is_aborted: Callable[[], bool]
    _unwell: str | None = field(default=None, init=False)
    _unwell_since: datetime | None = field(default=None, init=False)
    _is_fetched: bool = field(default=False, init=False)
    _confirm_error: str = field(default="", init=False)

    def __post_init__(self) -> None:
        self._answered_at = self.now()
        self._began = self.target.touched_at or self._answered_at  # an earlier runner has used up a part of its time

    async def run(self) -> RolloutTarget:
        """Bring the machine to the release, one step for each observation of it, until the target has an outcome."""
        outcome: Settle | None = None
        while outcome is None:
            observation = await self._observe()
            match decide_target(observation, self.rollout.release, self.rollout.spec):
                case Settle() as settled:
                    outcome = settled
                case TargetStep.FETCH:  # changes nothing that runs
                    outcome = await self._fetch(self._left_s(observation))
                case TargetStep.OBSERVE_AGENT:
                    await self._ask_agent()
                case TargetStep.ACTIVATE:  # backs the state up, tries the release on a copy of it, then switches
                    outcome = await self._activate(observation.status, self._left_s(observation))
                case TargetStep.AWAIT:
                    await pause(POLL_S)
                case TargetStep.CONFIRM:  # without it the machine rolls back by itself
                    self._confirm_error = await self._confirm(self._left_s(observation))
                case TargetStep.ROLL_BACK:
                    await self._roll_back(self._left_s(observation))
                case TargetStep.RETRY:
                    await self._begin_again()
        return await self.settle(outcome)

    async def settle(self, outcome: Settle) -> RolloutTarget:
        """Write the outcome of the target."""
        progress = replace(self.target.progress, on_release=outcome.on_release)
        if outcome.state is TargetState.SOAKING:
            progress = replace(progress, confirmed_at=self.now(), stuck="", unwell_since=None)
        if outcome.state is TargetState.DEFERRED:
            progress = replace(progress, deferred_until=deferral(self.target, self.now(), self.rollout.spec))
        return await self._put(replace(self.target, state=outcome.state, detail=outcome.detail, progress=progress))

    async def _observe(self) -> TargetObservation:
        status, is_held = await self._status()
        now = self.now()
        self._answered_at = now if status or is_held else self._answered_at
        return TargetObservation(
            self.target,
            status,
            silent_s=(now - self._answered_at).total_seconds(),
            tried_s=(now - self._began).total_seconds(),
            unwell=self._unwell,
            fetched=self._is_fetched,
            confirm_error=self._confirm_error,
            ending=self.is_ending(self.target),
            now=now,
            unwell_s=(now - self._unwell_since).total_seconds() if self._unwell_since else 0.0,
        )

    def _left_s(self, observation: TargetObservation) -> float:
        return self.rollout.spec.attempt_s - observation.tried_s + _OVERTIME_S

    async def _fetch(self, left_s: float) -> Settle | None:
        await self._put(replace(self.target, state=TargetState.FETCHING, detail=""))
        fetching = self.machines.fetch(self.target.facts, self.rollout.release)
        problem = await self._attempt(self._limited(fetching, left_s, notice_s=0))
        self._is_fetched = self._is_fetched or problem is not None
        return await self._refusal(problem)

    async def _activate(self, status: ReleaseStatus | None, left_s: float) -> Settle | None:
        await self._touch(status)
        activating = self._activate_unless_aborted()
        return await self._refusal(await self._attempt(self._limited(activating, left_s, notice_s=_NOTICE_S)))

    async def _confirm(self, left_s: float) -> str:
        await self._put(replace(self.target, state=TargetState.UNCONFIRMED, detail=""))
        confirming = self.machines.confirm(self.target.facts, self.rollout.release)
        # Any error counts: the gateway may not answer through the proxy because of the release.
        problem = await problem_of(self._limited(confirming, left_s, notice_s=0))
        if problem:
            await pause(POLL_S)
        return problem

    async def _roll_back(self, left_s: float) -> None:
        rolling_back = self.machines.roll_back(self.target.facts, lose=False)
        await self._attempt(self._limited(rolling_back, left_s, notice_s=left_s))

    async def _begin_again(self) -> None:
        progress = replace(self.target.progress, confirm_timeouts=self.target.progress.confirm_timeouts + 1)
        words = "tried again: it rolled back because no process confirmed it in time"
        again = replace(self.target, state=TargetState.WAITING, detail=words, touched_at=None, progress=progress)
        await self._put(again)

    async def _status(self) -> tuple[ReleaseStatus | None, bool]:
        """The machine's report, ``None`` without an answer; and whether only another operation keeps it from one."""
        try:
            async with asyncio.timeout(_OBSERVE_S):
                return await self.machines.observe(self.target.id), False
        except LeaseHeldError:
            return None, True
        except (HermesError, TimeoutError):
            return None, False

    async def _ask_agent(self) -> None:
        """Ask an untouched agent once; where it answered badly or late, it is asked again."""
        asked_at = self.now()
        self._unwell = await self._observe_agent()
        if self._unwell:
            self._unwell_since = self._unwell_since or asked_at
            await pause(POLL_S)

    async def _observe_agent(self) -> str | None:
        """The problem of an untouched agent; empty for none, ``None`` where it has to be asked again."""
        try:
            async with asyncio.timeout(_OBSERVE_S):
                return await self.machines.observe_agent(self.target.facts)
        except LeaseHeldError:
            await pause(POLL_S)
            return None
        except HermesError as error:
            return error.message
        except TimeoutError:
            return f"its agent did not answer within {_OBSERVE_S:g} s"

    async def _refusal(self, problem: str | None) -> Settle | None:
        """The failure of a machine that refused, unless it has the release: a first answer was lost."""
        if not problem:
            return None
        status, _ = await self._status()
        has_release = status is not None and self.rollout.release in {status.activation, status.current}
        return None if has_release else Settle(TargetState.FAILED, problem)

    async def _attempt(self, step: Awaitable[object]) -> str | None:
        """The message of a refusal; empty for success, ``None`` for a lost answer or a part: it is observed again."""
        try:
            await step
        except RefusedError as error:
            return error.message
        except (UnavailableError, UnknownOutcomeError, PartlyDoneError):  # the last: its new machine was not made whole
            await pause(POLL_S)
            return None
        return ""

    async def _limited(self, step: Coroutine[None, None, T], left_s: float, *, notice_s: float) -> T:
        """Do one step with a time limit: its machine may never answer.

        Args:
            step: It is cancelled when its time is up.
            left_s: Seconds for the step.
            notice_s: Seconds for it once the target is to end.

        Raises:
            UnavailableError: It was cancelled.
        """
        task = asyncio.ensure_future(step)
        limiting = asyncio.ensure_future(self._limit(task, left_s, notice_s))
        try:
            await asyncio.wait({task})
        finally:
            await cancel(limiting, task)
        if task.cancelled():
            raise UnavailableError(f"the machine of {self.target.facts.user} did not finish a step in time")
        return task.result()

    async def _limit(self, task: "asyncio.Task[T]", left_s: float, notice_s: float) -> None:
        left_s = max(left_s, POLL_S)
        while left_s > 0:
            await pause(POLL_S)
            left_s -= POLL_S
            if self.is_ending(self.target):
                left_s, notice_s = min(left_s, notice_s), notice_s - POLL_S
        task.cancel()

    async def _activate_unless_aborted(self) -> None:
        cancelling = asyncio.ensure_future(self._cancel_after_abort())
        try:
            await self.machines.activate(self.target.facts, self.rollout.release, self.rollout.spec)
        finally:
            cancelling.cancel()

    async def _cancel_after_abort(self) -> None:
        while True:
            await pause(POLL_S)
            if self.is_aborted():
                with suppress(HermesError):
                    await self.machines.cancel(self.target.facts)

    async def _touch(self, status: ReleaseStatus | None) -> None:
        """Write that the machine is about to be changed, before it is."""
        target = self.target
        if target.touched_at is None:
            if target.stage == 0:
                await self.rows.add_exposure(target.id, self.rollout.release)
            progress = replace(target.progress, last_before=status.last if status else "")
            target = replace(target, touched_at=self.now(), progress=progress)
        await self._put(replace(target, state=TargetState.ACTIVATING, detail=""))

    async def _put(self, target: RolloutTarget) -> RolloutTarget:
        self.target = replace(target, updated_at=self.now())
        await self.rows.put_targets(self.target)
        return self.target
