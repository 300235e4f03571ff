"""Looks at instances: their nodes are always asked, Prometheus besides where there is one.

Prometheus's figures count where it has them: it saw the whole stretch, and not only its ends.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Protocol

from hermesops.channel import (
    AnswerLostError,
    Channel,
    CommandExpiredError,
    MachineGoneError,
    MachineUnreachableError,
)
from hermesops.errors import UnavailableError
from hermesops.health.reading import Reading, vitals_of
from hermesops.model.ids import InstanceId
from hermesops.model.vitals import Source, Vitals
from hermesops.node.protocol import PROGRAM

_SILENT = (MachineUnreachableError, MachineGoneError, CommandExpiredError, AnswerLostError)
_LOOK_S = 20.0
_AT_ONCE = 32


class ChannelTo(Protocol):
    """The way to an instance's machine."""

    async def __call__(self, instance_id: InstanceId, /) -> Channel:
        """Open it.

        Raises:
            HermesError: There is none.
        """


class TakesFigures(Protocol):
    """Prometheus."""

    async def vitals(
        self, instances: Sequence[InstanceId], *, since: datetime, until: datetime
    ) -> Mapping[InstanceId, Vitals]:
        """The figures of these instances over a stretch of time."""


async def look(channel: Channel, *, since: datetime | None, turn_s: float = 0.0) -> Reading | None:
    """Ask one node; ``None`` when it does not answer.

    Args:
        channel: The way to its machine.
        since: From when on errors are counted.
        turn_s: Seconds that a turn may take; 0 has none taken.
    """
    words = [PROGRAM, "probe"]
    words += ["--since", f"{since.timestamp():.3f}"] if since else []
    words += ["--turn", f"{turn_s:g}"] if turn_s else []
    try:
        done = await channel.run(" ".join(words), timeout_s=_LOOK_S + turn_s)
        return Reading.from_json(done.stdout) if done.exit_code == 0 else None
    except (*_SILENT, UnavailableError):
        return None


class Observer:
    """Looks at many at once.

    Args:
        channel_to: The way to each.
        prometheus: Where there is one.
    """

    def __init__(self, channel_to: ChannelTo, prometheus: TakesFigures | None = None) -> None:
        self._channel_to = channel_to
        self._prometheus = prometheus
        self._turns = asyncio.Semaphore(_AT_ONCE)

    async def look(
        self, instances: Iterable[InstanceId], *, since: datetime | None, turn_s: float = 0.0
    ) -> dict[InstanceId, Reading | None]:
        """Ask their nodes; ``None`` for each that does not answer.

        Args:
            instances: Which.
            since: From when on errors are counted.
            turn_s: Seconds that a turn of each may take; 0 has none taken.
        """
        asked = list(instances)
        readings = await asyncio.gather(*(self._look(each, since, turn_s) for each in asked))
        return dict(zip(asked, readings, strict=True))

    async def _look(self, instance_id: InstanceId, since: datetime | None, turn_s: float) -> Reading | None:
        async with self._turns:
            try:
                channel = await self._channel_to(instance_id)
            except (*_SILENT, UnavailableError):
                return None
            return await look(channel, since=since, turn_s=turn_s)

    async def vitals(self, looks: Mapping[InstanceId, Sequence[Reading | None]]) -> dict[InstanceId, Vitals | None]:
        """What looks amount to; ``None`` for whoever gave no answer at the last one.

        Raises:
            UnavailableError: There is a Prometheus, and it does not answer.
        """
        told: dict[InstanceId, Vitals | None] = {}
        for each, readings in looks.items():
            answered = [reading for reading in readings if reading is not None]
            told[each] = vitals_of(each, answered) if answered and readings[-1] is not None else None
        return await self._with_prometheus(told) if self._prometheus else told

    async def _with_prometheus(self, told: Mapping[InstanceId, Vitals | None]) -> dict[InstanceId, Vitals | None]:
        assert self._prometheus is not None  # noqa: S101 - for the type
        seen = [each for each in told.values() if each is not None]
        if not seen:
            return dict(told)
        since, until = min(each.since for each in seen), max(each.until for each in seen)
        asked = await self._prometheus.vitals([each.instance_id for each in seen], since=since, until=until)
        merged = {each.instance_id: _merged(each, asked[each.instance_id]) for each in seen}
        return {each: merged.get(each) for each in told}


def _merged(node: Vitals, prometheus: Vitals) -> Vitals:
    if not prometheus.figures:
        return node
    figures = {**node.figures, **prometheus.figures}
    missing = {vital: why for vital, why in node.missing.items() if vital not in figures}
    return replace(node, source=Source.PROMETHEUS, figures=figures, missing=missing)
