"""Asks the nodes of many instances at once how their agents do; whoever takes long keeps nobody else waiting."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from hermesops.channel import Channel
from hermesops.errors import HermesError
from hermesops.fan_out import attempt, held_for
from hermesops.health.samples import HealthSample
from hermesops.model.ids import InstanceId
from hermesops.node.protocol import PROGRAM
from hermesops.waiting import cancel

_LOOK_S = 20.0
_GLANCE_S = 5.0
"""Seconds for which others wait for an answer, a turn included; one that comes later is told of by a later look."""

_AT_ONCE = 64
"""So many nodes are begun with at once; one that takes longer than others wait leaves its place to the next."""


class ChannelTo(Protocol):
    """The way to an instance's machine."""

    async def __call__(self, instance_id: InstanceId, /) -> Channel:
        """Open it.

        Raises:
            HermesError: There is none.
        """


@dataclass(frozen=True)
class Question:
    """What one node is asked.

    Attributes:
        since: From when on errors are counted; ``None`` counts none.
        turn_s: Seconds that a turn may take; 0 has none taken.
    """

    since: datetime | None = None
    turn_s: float = 0.0


class Observer:
    """Looks.

    Args:
        channel_to: The way to each.
        now: The present moment, with a time zone.
    """

    def __init__(self, channel_to: ChannelTo, now: Callable[[], datetime]) -> None:
        self._channel_to = channel_to
        self._now = now
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[InstanceId, asyncio.Task[HealthSample | None]] = {}

    def is_asking(self, instance_id: InstanceId) -> bool:
        """Whether a node was asked and has not answered yet."""
        return instance_id in self._asked

    async def observe(self, asked: Mapping[InstanceId, Question]) -> dict[InstanceId, HealthSample | None]:
        """Ask nodes, and tell of those that answered by now, also of what an earlier look asked.

        Args:
            asked: What each is asked that is not being asked already.

        Returns:
            Readings, which tell our own time, not the machines'; ``None`` for a node that gave none within its time.
        """
        new = {one: asyncio.ensure_future(self._answer(one, asked[one])) for one in asked if one not in self._asked}
        self._asked.update(new)
        if new:
            await asyncio.wait(new.values(), timeout=_GLANCE_S)
        answered = [one for one, task in self._asked.items() if task.done()]
        return {one: self._asked.pop(one).result() for one in answered}

    async def stop(self) -> None:
        """Wait for nobody any more."""
        asking = list(self._asked.values())
        self._asked.clear()
        await cancel(*asking)

    async def _answer(self, instance_id: InstanceId, question: Question) -> HealthSample | None:
        longest_s = 2 * _LOOK_S + question.turn_s
        async with held_for(self._places, _GLANCE_S):
            reading = await attempt(self._look, (instance_id, question), longest_s)
        return None if isinstance(reading, HermesError) else reading

    async def _look(self, asked: tuple[InstanceId, Question]) -> HealthSample | None:
        instance_id, question = asked
        at = self._now()
        channel = await self._channel_to(instance_id)
        done = await channel.run(_command(question), timeout_s=_LOOK_S + question.turn_s)
        reading = HealthSample.from_json(done.stdout) if done.exit_code == 0 else None
        return replace(reading, at=at) if reading else None


def _command(question: Question) -> str:
    words = [PROGRAM, "probe"]
    words += ["--since", f"{question.since.timestamp():.3f}"] if question.since else []
    words += ["--turn", f"{question.turn_s:g}"] if question.turn_s else []
    return " ".join(words)
