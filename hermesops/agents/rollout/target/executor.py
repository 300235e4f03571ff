"""Deploys to several targets at once, each until it has an outcome.

Within a second of an operator's command no new target is touched, and after an abort a changing target rolls back.
"""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import TYPE_CHECKING

import structlog

from hermesops.agents.rollout.ports import Machines
from hermesops.agents.rollout.records.store import RolloutRows
from hermesops.agents.rollout.target.decision import Settle
from hermesops.agents.rollout.target.deployment import POLL_S, Deployment
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.model.rollout.records import Rollout, RolloutState, RolloutTarget, TargetState

if TYPE_CHECKING:
    from hermesops.model.ids import InstanceId

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
        """Deploy to one target. An error that its machine provokes, a bug of ours included, fails this target alone."""
        deployment = Deployment(
            self._rows, self._machines, self._now, rollout, target, self._is_ending, lambda: self._is_aborted
        )
        try:
            return await deployment.run()
        except HermesError:
            raise  # the registry's: no target could go on
        except Exception as error:  # noqa: BLE001 - see above
            _log.error("rollout_target_broke", target=target.id, exc_info=error)
            problem = f"a bug in hermesops: {type(error).__name__}"
            return await deployment.settle(Settle(TargetState.FAILED, problem))
