"""Asks targets in advance, so that one without a proper answer delays no other."""

import asyncio
from collections.abc import Callable, Iterable
from datetime import datetime

from hermesops.agents.rollout.ports import Machines
from hermesops.agents.rollout.steps.observation import PreflightAnswers
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError
from hermesops.model.rollout.records import Rollout, RolloutTarget

_AHEAD = 64
"""How many targets are asked in advance, and …"""

_AT_ONCE = 16
"""… how many of them at the same time."""

_GLANCE_S = 2.0
"""Seconds for which a rollout waits for answers; a slower target is not next."""

_AGAIN_S = 2.0
_OBSERVE_S = 20.0
_NOBODY_S = 300.0
"""Seconds more for which several targets are asked while none has answered: that says more about who asks."""

_FRESH_S = 300.0
"""Seconds after which a target that gave no proper answer is asked again."""


class Preflight:
    """Checks future targets while earlier ones change, several at once."""

    def __init__(self, machines: Machines, now: Callable[[], datetime]) -> None:
        self._machines = machines
        self._now = now
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[InstanceId, asyncio.Task[str]] = {}
        self._ended: dict[InstanceId, float] = {}
        self._heard_at: float | None = None

    async def ask(self, rollout: Rollout, targets: Iterable[RolloutTarget]) -> PreflightAnswers:
        """Ask the next targets, unless they were asked.

        Args:
            targets: Untouched ones, in the order of their turns.
        """
        next_ones = list(targets)[:_AHEAD]
        self._forget_old({target.id for target in next_ones})
        new = [target for target in next_ones if target.id not in self._asked]
        for target in new:
            self._asked[target.id] = asyncio.ensure_future(self._answer(target, rollout))
        if new:
            await asyncio.wait([self._asked[target.id] for target in new], timeout=_GLANCE_S)
        unanswered = frozenset(target.id for target in next_ones if not self._asked[target.id].done())
        problems = {target.id: self._asked[target.id].result() for target in next_ones if target.id not in unanswered}
        unwell = {instance_id: problem for instance_id, problem in problems.items() if problem}
        return PreflightAnswers(unanswered, frozenset(problems.keys() - unwell.keys()), unwell)

    async def stop(self) -> None:
        """Cancel all running checks and wait until they have ended."""
        asking = [task for task in self._asked.values() if not task.done()]
        self._asked.clear()
        await cancel(*asking)

    def _forget_old(self, next_ids: set[InstanceId]) -> None:
        now = self._now().timestamp()
        for instance_id, task in list(self._asked.items()):
            ended_at = self._ended.get(instance_id)
            is_old = ended_at is not None and now - ended_at >= _FRESH_S
            if instance_id not in next_ids or (is_old and task.done() and task.result()):
                task.cancel()
                del self._asked[instance_id]

    async def _answer(self, target: RolloutTarget, rollout: Rollout) -> str:
        """The problem of a target, asked until it answers correctly or ``unreachable_after_s`` is over.

        While none of several has answered, it goes on for ``_NOBODY_S`` more, except in an emergency; once one has, the
        others have as long as if they were asked then.
        """
        begun = self._now().timestamp()
        while (problem := await self._problem(target, rollout)) and self._now().timestamp() < self._ends(
            begun, rollout
        ):
            await pause(_AGAIN_S)
        self._ended[target.id] = self._now().timestamp()
        return problem

    def _ends(self, begun: float, rollout: Rollout) -> float:
        """When a target that has not answered since ``begun`` is out of contact, in seconds since 1970."""
        limit_s = rollout.spec.unreachable_after_s
        if self._heard_at is not None:
            return max(begun, self._heard_at) + limit_s
        is_patient = len(self._asked) > 1 and not rollout.spec.emergency
        return begun + limit_s + (_NOBODY_S if is_patient else 0)

    async def _problem(self, target: RolloutTarget, rollout: Rollout) -> str:
        try:
            async with self._places, asyncio.timeout(_OBSERVE_S):
                status = await self._machines.observe(target.id)
                is_settled = status.absent or status.activation or status.current == rollout.release
                problem = "" if is_settled else await self._machines.observe_agent(target.facts)
                self._heard_at = self._heard_at or self._now().timestamp()  # an agent that is unwell is not silent
                return problem
        except LeaseHeldError:
            return ""  # that proves nothing about the agent; it is observed before its change
        except HermesError as error:
            return error.message
        except TimeoutError:
            return f"no answer within {_OBSERVE_S:g} s"
        except Exception:  # noqa: BLE001 - a bug that its machine provokes is told and logged when its turn comes
            return ""
