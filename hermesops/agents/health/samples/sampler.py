"""Samples the health of many instances at once by asking their nodes; a slow node delays no other."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from datetime import datetime

from hermesops.agents.health.samples.sample import HealthSample, Question
from hermesops.base.fan_out import attempt, held_for
from hermesops.base.waiting import cancel
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.vendor.channel import Channel
from hermesops.wire.protocol import PROGRAM

_ANSWER_S = 20.0
"""Seconds in which a node has to answer, a turn aside."""

_GLANCE_S = 5.0
"""Seconds for which one call waits for answers, a turn included; a later call returns those that come later."""

_AT_ONCE = 64
"""How many nodes are asked at once; one that takes longer than ``_GLANCE_S`` leaves its place to the next."""

OpenChannel = Callable[[InstanceId], Awaitable[Channel]]
"""Opens the channel to an instance's machine; ``HermesError`` where there is none."""


class Sampler:
    """Takes health samples from nodes through the toolbox, several at once."""

    def __init__(self, open_channel: OpenChannel, now: Callable[[], datetime]) -> None:
        self._open_channel = open_channel
        self._now = now
        self._places = asyncio.Semaphore(_AT_ONCE)
        self._asked: dict[InstanceId, asyncio.Task[HealthSample | None]] = {}

    def is_asking(self, instance_id: InstanceId) -> bool:
        """Whether a node was asked and has not answered yet."""
        return instance_id in self._asked

    async def sample(self, questions: Mapping[InstanceId, Question]) -> dict[InstanceId, HealthSample | None]:
        """Ask nodes, and return the answers that have come by now, also to earlier calls.

        Returns:
            Samples with our own time, not the machines'; ``None`` for a node without an answer in its time.
        """
        new = {
            instance_id: asyncio.ensure_future(self._answer(instance_id, question))
            for instance_id, question in questions.items()
            if instance_id not in self._asked
        }
        self._asked.update(new)
        if new:
            await asyncio.wait(new.values(), timeout=_GLANCE_S)
        answered = [instance_id for instance_id, task in self._asked.items() if task.done()]
        return {instance_id: self._asked.pop(instance_id).result() for instance_id in answered}

    async def stop(self) -> None:
        """Cancel the questions that are unanswered."""
        asking = list(self._asked.values())
        self._asked.clear()
        await cancel(*asking)

    async def _answer(self, instance_id: InstanceId, question: Question) -> HealthSample | None:
        longest_s = 2 * _ANSWER_S + question.turn_s
        async with held_for(self._places, _GLANCE_S):
            sample = await attempt(self._ask, (instance_id, question), longest_s)
        return None if isinstance(sample, HermesError) else sample

    async def _ask(self, questioned: tuple[InstanceId, Question]) -> HealthSample | None:
        instance_id, question = questioned
        at = self._now()
        channel = await self._open_channel(instance_id)
        words = [PROGRAM, "probe"]
        words += ["--since", f"{question.since.timestamp():.3f}"] if question.since else []
        words += ["--turn", f"{question.turn_s:g}"] if question.turn_s else []
        done = await channel.run(" ".join(words), timeout_s=_ANSWER_S + question.turn_s)
        return replace(HealthSample.from_json(done.stdout), at=at) if done.exit_code == 0 else None
