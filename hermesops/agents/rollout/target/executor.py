"""Deploys to several targets at once, each until it has an outcome: observe, decide, do, write, and again.

Work on a target may end at any moment, by a crash too: its machine reports its progress to the next runner. Within a
second of an operator's command no new target is touched, and after an abort a changing target rolls back.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import TypeVar

import structlog

from hermesops.agents.rollout.ports import Machines
from hermesops.agents.rollout.store import RolloutRows
from hermesops.agents.rollout.target.decision import Settle, TargetObservation, TargetStep, decide_target, deferral
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, problem_of
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError
from hermesops.model.rollout import ReleaseStatus, Rollout, RolloutState, RolloutTarget, TargetState

POLL_S = 1.0
"""Seconds between two observations of a machine that is changing, and between two reads of the rollout's state."""

_OBSERVE_S = 60.0
"""Seconds after which a machine that is asked has not answered."""

_OVERTIME_S = 30.0
"""Seconds beyond a target's ``attempt_s`` after which a step that has not ended is left to its machine."""

_NOTICE_S = 60.0
"""Seconds that a changing machine has to take notice of an abort."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)


class BatchExecutor:
    """The targets that this process is deploying to."""

    def __init__(self, rows: RolloutRows, machines: Machines, now: Callable[[], datetime]) -> None:
        self._rows = rows
        self._machines = machines
        self._now = now
        self._state = RolloutState.RUNNING
        self._is_enough = False
        self._running: dict[InstanceId, asyncio.Task[RolloutTarget]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether a target is in progress."""
        return bool(self._running)

    async def run(
        self, rollout: Rollout, targets: Iterable[RolloutTarget], is_enough: Callable[[list[RolloutTarget]], bool]
    ) -> list[RolloutTarget]:
        """Deploy to targets until each has an outcome, or the outcomes so far are enough; the others then go on.

        Args:
            targets: Those that are in progress already are waited for, not begun again.
            is_enough: Whether the outcomes so far are a reason to decide again.
        """
        self._state, self._is_enough = await self._rows.state(), False
        tasks = [self._begin(rollout, target) for target in targets]
        polling = asyncio.ensure_future(self._poll_state())
        try:
            return await self._gather(tasks, is_enough)
        except BaseException:
            await self.stop()
            raise
        finally:
            await cancel(polling)

    async def stop(self) -> None:
        """Leave all of them where they are."""
        tasks = list(self._running.values())
        self._running.clear()
        await cancel(*tasks)

    def _begin(self, rollout: Rollout, target: RolloutTarget) -> asyncio.Task[RolloutTarget]:
        if target.id not in self._running:
            self._running[target.id] = asyncio.ensure_future(self._deploy_safely(rollout, target))
        return self._running[target.id]

    async def _gather(
        self, tasks: list[asyncio.Task[RolloutTarget]], is_enough: Callable[[list[RolloutTarget]], bool]
    ) -> list[RolloutTarget]:
        waiting, ended = set(tasks), list[RolloutTarget]()
        while waiting:
            done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                target = task.result()
                self._running.pop(target.id, None)
                ended.append(target)
            if is_enough(ended):
                self._is_enough = True
                break
        return ended

    async def _poll_state(self) -> None:
        while True:
            await pause(POLL_S)
            self._state = await self._rows.state()

    @property
    def _is_aborted(self) -> bool:
        return self._state not in {RolloutState.RUNNING, RolloutState.PAUSED}

    def _is_ending(self, target: RolloutTarget) -> bool:
        """Whether an untouched target is not to be touched any more, and a touched one is to go back."""
        holds = self._is_enough or self._state is RolloutState.PAUSED
        return self._is_aborted or (not target.touched_at and holds)

    async def _deploy_safely(self, rollout: Rollout, target: RolloutTarget) -> RolloutTarget:
        """Deploy to one target. What its machine provokes, a bug of ours included, is its own failure alone."""
        try:
            return await self._deploy(rollout, target)
        except HermesError:
            raise  # the registry's: no target could go on
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("rollout_target_broke", target=target.id, exc_info=error)
            return await self._settle(
                rollout, target, Settle(TargetState.FAILED, f"a bug in hermesops: {type(error).__name__}")
            )

    async def _deploy(self, rollout: Rollout, target: RolloutTarget) -> RolloutTarget:
        answered_at, fetched, confirm_error = self._now(), False, ""
        unwell: str | None = None
        began = target.touched_at or answered_at  # an earlier runner has used up a part of its time
        while True:
            status, is_held = await self._observe(target.id)
            now = self._now()
            answered_at = now if status or is_held else answered_at
            observation = TargetObservation(
                target,
                status,
                silent_s=(now - answered_at).total_seconds(),
                tried_s=(now - began).total_seconds(),
                unwell=unwell,
                fetched=fetched,
                confirm_error=confirm_error,
                ending=self._is_ending(target),
                now=now,
            )
            step = decide_target(observation, rollout.release, rollout.spec)
            if isinstance(step, Settle):
                return await self._settle(rollout, target, step)
            if step is TargetStep.OBSERVE_AGENT:
                unwell = await self._observe_agent(target)
                continue
            left_s = rollout.spec.attempt_s - observation.tried_s + _OVERTIME_S
            target, problem = await self._do(step, rollout, target, status, left_s)
            if step is TargetStep.CONFIRM:
                confirm_error, problem = problem or "", ""
            if problem and not await self._has_release(rollout, target):
                return await self._settle(rollout, target, Settle(TargetState.FAILED, problem))
            fetched = fetched or (step is TargetStep.FETCH and problem is not None)

    async def _do(
        self, step: TargetStep, rollout: Rollout, target: RolloutTarget, status: ReleaseStatus | None, left_s: float
    ) -> tuple[RolloutTarget, str | None]:
        """Do one step.

        Returns:
            The target as written, and why it failed for good; empty when it did not, ``None`` when that is unknown.
        """
        facts, release = target.facts, rollout.release
        match step:
            case TargetStep.FETCH:
                target = await self._put(replace(target, state=TargetState.FETCHING, detail=""))
                fetching = self._machines.fetch(facts, release)
                return target, await self._attempt(self._limited(fetching, target, left_s, notice_s=0))
            case TargetStep.ACTIVATE:
                target = await self._touch(rollout, target, status)
                activating = self._activate(rollout, target)
                return target, await self._attempt(self._limited(activating, target, left_s, notice_s=_NOTICE_S))
            case TargetStep.CONFIRM:
                target = await self._put(replace(target, state=TargetState.UNCONFIRMED, detail=""))
                confirming = self._machines.confirm(facts, release)
                # Any error counts: the gateway may not answer through the proxy because of the release.
                problem = await problem_of(self._limited(confirming, target, left_s, notice_s=0))
                if problem:
                    await pause(POLL_S)
                return target, problem
            case TargetStep.RETRY:
                progress = replace(target.progress, confirm_timeouts=target.progress.confirm_timeouts + 1)
                words = "tried again: it rolled back because no process confirmed it in time"
                again = replace(target, state=TargetState.WAITING, detail=words, touched_at=None, progress=progress)
                return await self._put(again), ""
            case TargetStep.ROLL_BACK:
                rolling_back = self._machines.roll_back(facts, lose=False)
                await self._attempt(self._limited(rolling_back, target, left_s, notice_s=left_s))
            case TargetStep.AWAIT | TargetStep.OBSERVE_AGENT:
                await pause(POLL_S)
        return target, ""

    async def _observe(self, instance_id: InstanceId) -> tuple[ReleaseStatus | None, bool]:
        """What a machine says, if it answers; and whether it does not because another operation works on it."""
        try:
            async with asyncio.timeout(_OBSERVE_S):
                return await self._machines.observe(instance_id), False
        except LeaseHeldError:
            return None, True
        except (HermesError, TimeoutError):
            return None, False

    async def _observe_agent(self, target: RolloutTarget) -> str | None:
        """What is wrong with an untouched agent; empty for nothing, ``None`` where it has to be asked again."""
        try:
            async with asyncio.timeout(_OBSERVE_S):
                return await self._machines.observe_agent(target.facts)
        except LeaseHeldError:
            await pause(POLL_S)
            return None
        except HermesError as error:
            return error.message
        except TimeoutError:
            return f"its agent did not answer within {_OBSERVE_S:g} s"

    async def _has_release(self, rollout: Rollout, target: RolloutTarget) -> bool:
        """Whether a machine that refused has the release: a first answer was lost, and it was asked twice."""
        status, _ = await self._observe(target.id)
        return status is not None and rollout.release in {status.activation, status.current}

    async def _attempt(self, doing: Awaitable[None]) -> str | None:
        """The message of a refusal; empty for success, ``None`` for a lost answer: the machine is observed again."""
        try:
            await doing
        except RefusedError as error:
            return error.message
        except (UnavailableError, UnknownOutcomeError):
            await pause(POLL_S)
            return None
        return ""

    async def _limited(
        self, doing: Coroutine[None, None, T], target: RolloutTarget, left_s: float, *, notice_s: float
    ) -> T:
        """Do one step with a time limit: its machine may never answer.

        Args:
            doing: The step; it is cancelled when its time is up.
            notice_s: Seconds for the step once the target is to end.

        Raises:
            UnavailableError: It was cancelled.
        """
        step = asyncio.ensure_future(doing)
        limiting = asyncio.ensure_future(self._limit(step, target, left_s, notice_s))
        try:
            await asyncio.wait({step})
        finally:
            await cancel(limiting, step)
        if step.cancelled():
            raise UnavailableError(f"the machine of {target.facts.user} did not finish a step in time")
        return step.result()

    async def _limit(self, step: "asyncio.Task[T]", target: RolloutTarget, left_s: float, notice_s: float) -> None:
        left_s = max(left_s, POLL_S)
        while left_s > 0:
            await pause(POLL_S)
            left_s -= POLL_S
            if self._is_ending(target):
                left_s, notice_s = min(left_s, notice_s), notice_s - POLL_S
        step.cancel()

    async def _activate(self, rollout: Rollout, target: RolloutTarget) -> None:
        cancelling = asyncio.ensure_future(self._cancel_after_abort(target))
        try:
            await self._machines.activate(target.facts, rollout.release, rollout.spec)
        finally:
            cancelling.cancel()

    async def _cancel_after_abort(self, target: RolloutTarget) -> None:
        while True:
            await pause(POLL_S)
            if self._is_aborted:
                with suppress(HermesError):
                    await self._machines.cancel(target.facts)

    async def _touch(self, rollout: Rollout, target: RolloutTarget, status: ReleaseStatus | None) -> RolloutTarget:
        """Write that the machine is about to be changed, before it is."""
        if target.touched_at is None:
            if target.stage == 0:
                await self._rows.add_exposure(target.id, rollout.release)
            progress = replace(target.progress, last_before=status.last if status else "")
            target = replace(target, touched_at=self._now(), progress=progress)
        return await self._put(replace(target, state=TargetState.ACTIVATING, detail=""))

    async def _settle(self, rollout: Rollout, target: RolloutTarget, settled: Settle) -> RolloutTarget:
        progress = replace(target.progress, on_release=settled.on_release)
        if settled.state is TargetState.SOAKING:
            progress = replace(progress, confirmed_at=self._now(), stuck="", unwell_since=None)
        if settled.state is TargetState.DEFERRED:
            until = deferral(target, self._now(), rollout.spec)
            progress = replace(progress, deferred_until=until)
        return await self._put(replace(target, state=settled.state, detail=settled.detail, progress=progress))

    async def _put(self, target: RolloutTarget) -> RolloutTarget:
        target = replace(target, updated_at=self._now())
        await self._rows.put_targets(target)
        return target
