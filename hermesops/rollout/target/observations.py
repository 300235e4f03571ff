"""What targets answer before their turn comes: those that give no proper answer are known by then, and delay nobody."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import LeaseHeldError
from hermesops.model.rollout import Rollout, RolloutTarget
from hermesops.rollout.ports import Clock, Machines
from hermesops.waiting import cancel

_AHEAD = 64
"""So many targets are asked before their turn comes."""

_AT_ONCE = 16
_GLANCE_S = 2.0
"""Seconds for which a rollout waits for answers: whoever takes longer is not next."""

_AGAIN_S = 2.0
_LOOK_S = 20.0
_FRESH_S = 300.0
"""Seconds after which somebody who gave no proper answer is asked anew."""


@dataclass(frozen=True)
class TargetAnswers:
    """What came of asking some targets.

    Attributes:
        unanswered: Those that have not answered yet, and may.
        answered: Those that answered as they should.
        unwell: Those that gave no proper answer for as long as one is patient, with what is wrong.
    """

    unanswered: frozenset[InstanceId] = frozenset()
    answered: frozenset[InstanceId] = frozenset()
    unwell: Mapping[InstanceId, str] = field(default_factory=dict)


class Observations:
    """Targets that are asked while others change.

    Args:
        machines: Theirs.
        clock: The time.
    """

    def __init__(self, machines: Machines, clock: Clock) -> None:
        self._machines = machines
        self._clock = clock
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[InstanceId, asyncio.Task[str]] = {}
        self._ended: dict[InstanceId, float] = {}

    async def ask(self, rollout: Rollout, targets: Iterable[RolloutTarget]) -> TargetAnswers:
        """Ask those whose turn comes next, unless that was done.

        Args:
            rollout: Whose they are.
            targets: Untouched ones, in the order in which their turn comes.
        """
        next_ones = list(targets)[:_AHEAD]
        self._forget_old({target.id for target in next_ones})
        new = [target for target in next_ones if target.id not in self._asked]
        for target in new:
            self._asked[target.id] = asyncio.ensure_future(self._answer(target, rollout))
        if new:
            await asyncio.wait([self._asked[target.id] for target in new], timeout=_GLANCE_S)
        unanswered = frozenset(target.id for target in next_ones if not self._asked[target.id].done())
        told = {one.id: self._asked[one.id].result() for one in next_ones if one.id not in unanswered}
        answered = frozenset(instance_id for instance_id, words in told.items() if not words)
        return TargetAnswers(unanswered, answered, {instance_id: words for instance_id, words in told.items() if words})

    async def stop(self) -> None:
        """Ask nobody any more."""
        asking = [task for task in self._asked.values() if not task.done()]
        self._asked.clear()
        await cancel(*asking)

    def _forget_old(self, wanted: set[InstanceId]) -> None:
        now = self._clock.now().timestamp()
        for instance_id, task in list(self._asked.items()):
            ended_at = self._ended.get(instance_id)
            is_old = ended_at is not None and now - ended_at >= _FRESH_S
            if instance_id not in wanted or (is_old and task.done() and task.result()):
                task.cancel()
                del self._asked[instance_id]

    async def _answer(self, target: RolloutTarget, rollout: Rollout) -> str:
        """What is wrong with one; empty once it answers as it should."""
        ends = self._clock.now().timestamp() + rollout.spec.patience_s
        while (words := await self._glance(target, rollout)) and self._clock.now().timestamp() < ends:
            await self._clock.pause(_AGAIN_S)
        self._ended[target.id] = self._clock.now().timestamp()
        return words

    async def _glance(self, target: RolloutTarget, rollout: Rollout) -> str:
        try:
            async with self._places, asyncio.timeout(_LOOK_S):
                status = await self._machines.observe(target.id)
                if status.absent or status.activation or status.current == rollout.release:
                    return ""
                return await self._machines.observe_agent(target.facts)
        except LeaseHeldError:
            return ""  # that says nothing of the agent; it is looked at when its turn comes
        except HermesError as error:
            return error.message
        except TimeoutError:
            return f"no answer within {_LOOK_S:g} s"
        except Exception:  # noqa: BLE001 - a bug that its machine provokes is told and logged when its turn comes
            return ""
