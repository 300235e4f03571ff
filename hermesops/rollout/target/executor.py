"""Brings single targets to an end each, several at a time: look, decide, do, write down, look again.

Each may be left at any moment, by a crash too: what its machine says tells the next runner how far it came. Who is told
to stop touches nobody new from the next second on; a machine that is changing by then goes back rather than on.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

import structlog

from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError, problem_of
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError
from hermesops.model.rollout import ReleaseStatus, Rollout, RolloutState, RolloutTarget, TargetState
from hermesops.rollout.ports import Clock, Machines, Rows
from hermesops.rollout.target.decision import (
    Activate,
    Await,
    Confirm,
    Fetch,
    ObserveAgent,
    Retry,
    RollBack,
    Settle,
    TargetDecision,
    TargetObservation,
    decide_target,
    deferral,
)
from hermesops.waiting import cancel

POLL_S = 1.0
"""Seconds between two looks at a machine that is changing, and at what operators say."""

_LOOK_S = 60.0
"""Seconds after which a machine that is looked at gives no answer."""

_OVERTIME_S = 30.0
"""Seconds beyond a target's patience after which a step that still has not ended is left to its machine."""

_NOTICE_S = 60.0
"""Seconds that a machine which changes has to take notice that nobody wants that any more."""

T = TypeVar("T")

_log = structlog.get_logger(__name__)

_GOES_ON = frozenset({RolloutState.RUNNING, RolloutState.PAUSED})
"""States in which whoever is under way is brought to the new release."""


class BatchExecutor:
    """Those under way in this process.

    Args:
        rows: Where targets stand is written there.
        machines: Theirs.
        clock: The time.
    """

    def __init__(self, rows: Rows, machines: Machines, clock: Clock) -> None:
        self._rows = rows
        self._machines = machines
        self._clock = clock
        self._state = RolloutState.RUNNING
        self._is_enough = False
        self._running: dict[InstanceId, asyncio.Task[RolloutTarget]] = {}

    @property
    def is_busy(self) -> bool:
        """Whether somebody is under way."""
        return bool(self._running)

    async def run(
        self, rollout: Rollout, targets: Iterable[RolloutTarget], is_enough: Callable[[list[RolloutTarget]], bool]
    ) -> list[RolloutTarget]:
        """Bring targets to an end each, or as far as until somebody has seen enough; the others go on meanwhile.

        Args:
            rollout: Whose they are.
            targets: Those that this runner is at already are waited for, not begun again.
            is_enough: Whether what has come to an end so far is a reason to decide anew.

        Returns:
            Those that came to an end.
        """
        self._state, self._is_enough = await self._rows.state(), False
        mine = [self._begin(rollout, target) for target in targets]
        watching = asyncio.ensure_future(self._watch())
        try:
            return await self._gather(mine, is_enough)
        except BaseException:
            await self.stop()
            raise
        finally:
            await cancel(watching)

    async def stop(self) -> None:
        """Leave all of them where they are."""
        tasks = list(self._running.values())
        self._running.clear()
        await cancel(*tasks)

    def _begin(self, rollout: Rollout, target: RolloutTarget) -> asyncio.Task[RolloutTarget]:
        if target.id not in self._running:
            self._running[target.id] = asyncio.ensure_future(self._ended(rollout, target))
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

    async def _watch(self) -> None:
        while True:
            await self._clock.pause(POLL_S)
            self._state = await self._rows.state()

    async def _ended(self, rollout: Rollout, target: RolloutTarget) -> RolloutTarget:
        """Bring one to its end. What its machine provokes, a bug of ours included, is its own failure alone."""
        try:
            return await self._brought(rollout, target)
        except HermesError:
            raise  # the registry's: nobody could go on
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("rollout_target_broke", target=target.id, exc_info=error)
            return await self._settle(rollout, target, Settle(TargetState.FAILED, f"a bug: {type(error).__name__}"))

    async def _brought(self, rollout: Rollout, target: RolloutTarget) -> RolloutTarget:
        heard, fetched, confirm_error = self._clock.now(), False, ""
        unwell: str | None = None
        began = target.touched_at or heard  # whoever was at it before has had its share of patience
        while True:
            status, held = await self._look(target.id)
            now = self._clock.now()
            heard = now if status or held else heard
            observation = TargetObservation(
                target,
                status,
                silent_s=(now - heard).total_seconds(),
                tried_s=(now - began).total_seconds(),
                unwell=unwell,
                fetched=fetched,
                confirm_error=confirm_error,
                ending=self._is_ending(target),
                now=now,
            )
            act = decide_target(observation, rollout.release, rollout.spec)
            if isinstance(act, Settle):
                return await self._settle(rollout, target, act)
            if isinstance(act, ObserveAgent):
                unwell = await self._unwell(target)
                continue
            left_s = rollout.spec.attempt_s - observation.tried_s + _OVERTIME_S
            target, problem = await self._do(act, rollout, target, status, left_s)
            if isinstance(act, Confirm):
                confirm_error, problem = problem or "", ""
            if problem and not await self._runs(rollout, target):
                return await self._settle(rollout, target, Settle(TargetState.FAILED, problem))
            fetched = fetched or (isinstance(act, Fetch) and problem is not None)

    async def _do(
        self,
        act: TargetDecision,
        rollout: Rollout,
        target: RolloutTarget,
        status: ReleaseStatus | None,
        left_s: float,
    ) -> tuple[RolloutTarget, str | None]:
        """Do one thing.

        Returns:
            The target as it stands, and why it failed for good; empty when it did not, ``None`` when nobody knows.
        """
        match act:
            case Fetch():
                target = await self._put(replace(target, state=TargetState.FETCHING, detail=""))
                fetching = self._machines.fetch(target.facts, rollout.release)
                return target, await self._attempt(self._limited(fetching, target, left_s, notice_s=0))
            case Activate():
                target = await self._touch(rollout, target, status)
                changing = self._activated(rollout, target)
                return target, await self._attempt(self._limited(changing, target, left_s, notice_s=_NOTICE_S))
            case Confirm():
                target = await self._put(replace(target, state=TargetState.UNCONFIRMED, detail=""))
                return target, await self._confirmed(rollout, target, left_s)
            case Retry():
                again = replace(target.progress, lapses=target.progress.lapses + 1)
                words = "again: it went back, as nobody was there to confirm it"
                anew = replace(target, state=TargetState.WAITING, detail=words, touched_at=None, progress=again)
                return await self._put(anew), ""
            case RollBack():
                going = self._machines.back(target.facts, rollout.spec, lose=False)
                await self._attempt(self._limited(going, target, left_s, notice_s=left_s))
            case Await() | ObserveAgent() | Settle():
                await self._clock.pause(POLL_S)
        return target, ""

    async def _unwell(self, target: RolloutTarget) -> str | None:
        """What is wrong with an agent that nobody has touched; empty when nothing, ``None`` when that is to be seen."""
        try:
            async with asyncio.timeout(_LOOK_S):
                return await self._machines.observe_agent(target.facts)
        except LeaseHeldError:
            await self._clock.pause(POLL_S)
            return None
        except HermesError as error:
            return error.message
        except TimeoutError:
            return f"nothing was seen of its agent within {_LOOK_S:g} s"

    async def _attempt(self, doing: Awaitable[None]) -> str | None:
        """Do it; a lost answer is none (``None``), and the machine is looked at again. A refusal is told."""
        try:
            await doing
        except RefusedError as error:
            return error.message
        except (UnavailableError, UnknownOutcomeError):
            await self._clock.pause(POLL_S)
            return None
        return ""

    def _is_ending(self, target: RolloutTarget) -> bool:
        """Whether it is not to be touched any more, or to go back where it was."""
        if not target.touched_at and (self._is_enough or self._state is RolloutState.PAUSED):
            return True
        return self._state not in _GOES_ON

    async def _limited(
        self, doing: Coroutine[None, None, T], target: RolloutTarget, left_s: float, *, notice_s: float
    ) -> T:
        """Do one step, whose machine may never let it end.

        Args:
            doing: The step; it is cancelled when its time is up.
            target: Whose.
            left_s: Seconds that it has.
            notice_s: Seconds that it has once nobody wants the change any more.

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
            raise UnavailableError(f"the machine of {target.facts.user} did not come to an end in its time")
        return step.result()

    async def _limit(self, step: "asyncio.Task[T]", target: RolloutTarget, left_s: float, notice_s: float) -> None:
        left_s = max(left_s, POLL_S)
        while left_s > 0:
            await self._clock.pause(POLL_S)
            left_s -= POLL_S
            if self._is_ending(target):
                left_s, notice_s = min(left_s, notice_s), notice_s - POLL_S
        step.cancel()

    async def _activated(self, rollout: Rollout, target: RolloutTarget) -> None:
        """Have it activated; once nobody wants that any more, it is asked to give up what it has not begun."""
        asking = asyncio.ensure_future(self._cancel_in_the_end(target))
        try:
            await self._machines.activate(target.facts, rollout.release, rollout.spec)
        finally:
            asking.cancel()

    async def _cancel_in_the_end(self, target: RolloutTarget) -> None:
        while True:
            await self._clock.pause(POLL_S)
            if self._state not in _GOES_ON:
                with suppress(HermesError):
                    await self._machines.cancel(target.facts)

    async def _confirmed(self, rollout: Rollout, target: RolloutTarget, left_s: float) -> str:
        """Confirm it; why that could not be done, as far as it may be the release's fault."""
        confirming = self._machines.confirm(target.facts, rollout.release)
        problem = await problem_of(self._limited(confirming, target, left_s, notice_s=0))
        if problem:
            await self._clock.pause(POLL_S)
        return problem

    async def _touch(self, rollout: Rollout, target: RolloutTarget, status: ReleaseStatus | None) -> RolloutTarget:
        if target.touched_at is None:
            if target.stage == 0:
                await self._rows.add_exposure(target.id, rollout.release)
            progress = replace(target.progress, said_before=status.last if status else "")
            target = replace(target, touched_at=self._clock.now(), progress=progress)
        return await self._put(replace(target, state=TargetState.ACTIVATING, detail=""))

    async def _settle(self, rollout: Rollout, target: RolloutTarget, settled: Settle) -> RolloutTarget:
        progress = replace(target.progress, on_release=settled.on_release)
        if settled.state is TargetState.SOAKING:
            progress = replace(progress, confirmed_at=self._clock.now(), stuck="", unwell_since=None)
        if settled.state is TargetState.DEFERRED:
            until = deferral(target, self._clock.now(), rollout.spec)
            progress = replace(progress, deferred_until=until)
        return await self._put(replace(target, state=settled.state, detail=settled.detail, progress=progress))

    async def _put(self, target: RolloutTarget) -> RolloutTarget:
        target = replace(target, updated_at=self._clock.now())
        await self._rows.put_targets(target)
        return target

    async def _runs(self, rollout: Rollout, target: RolloutTarget) -> bool:
        """Whether a machine is at the release although it refused: a first answer was lost, and it was asked twice."""
        status, _ = await self._look(target.id)
        return status is not None and rollout.release in {status.activation, status.current}

    async def _look(self, instance_id: InstanceId) -> tuple[ReleaseStatus | None, bool]:
        """What a machine says, unless it is silent; and whether it is because somebody else works on the instance."""
        try:
            async with asyncio.timeout(_LOOK_S):
                return await self._machines.observe(instance_id), False
        except LeaseHeldError:
            return None, True
        except (HermesError, TimeoutError):
            return None, False
