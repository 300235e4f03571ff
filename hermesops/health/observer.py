"""Asks the nodes of many instances at once how their agents do."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Protocol

from hermesops.channel import Channel
from hermesops.errors import HermesError
from hermesops.fan_out import Limits, fan_out
from hermesops.health.reading import Reading
from hermesops.model.ids import InstanceId
from hermesops.node.protocol import PROGRAM

_LOOK_S = 20.0
_AT_ONCE = 32


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

    async def look(self, asked: Mapping[InstanceId, Question]) -> dict[InstanceId, Reading | None]:
        """Ask their nodes; ``None`` for each that does not answer. Readings tell our own time, not the machines'."""
        longest_s = 2 * _LOOK_S + max((question.turn_s for question in asked.values()), default=0.0)
        limits = Limits(_AT_ONCE, slow_after_s=_LOOK_S, within_s=longest_s)
        readings = await fan_out(list(asked.items()), self._look, limits)
        return {
            whose: None if isinstance(reading, HermesError) else reading
            for whose, reading in zip(asked, readings, strict=True)
        }

    async def _look(self, asked: tuple[InstanceId, Question]) -> Reading | None:
        instance_id, question = asked
        at = self._now()
        channel = await self._channel_to(instance_id)
        done = await channel.run(_command(question), timeout_s=_LOOK_S + question.turn_s)
        reading = Reading.from_json(done.stdout) if done.exit_code == 0 else None
        return replace(reading, at=at) if reading else None


def _command(question: Question) -> str:
    words = [PROGRAM, "probe"]
    words += ["--since", f"{question.since.timestamp():.3f}"] if question.since else []
    words += ["--turn", f"{question.turn_s:g}"] if question.turn_s else []
    return " ".join(words)
