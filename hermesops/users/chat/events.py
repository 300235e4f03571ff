"""Events of turns, as pages read them: kept until some minutes after a turn's end, and read from any place.

``EventLog`` has two implementations: in this process, and in Redis. Losing it costs speed alone: pages then get the
answer from the agent's transcript.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from hermesops.base.waiting import pause

KEPT_S = 600.0
"""Seconds after a turn's end until its events are dropped."""

MOST_BYTES = 4 << 20
"""Bytes of one turn's events; a longer answer is cut, and its end names the transcript."""


@dataclass(frozen=True)
class ChatEvent:
    """An event of a turn.

    Attributes:
        id: Position in the turn: 1, 2, 3 …
        kind: ``turn``, ``delta``, ``tool``, ``approval``, ``resolved``, ``done``, ``failed``, ``stopped``.
        data: JSON of the event.
    """

    id: int
    kind: str
    data: Mapping[str, object] = field(repr=False)

    @property
    def is_last(self) -> bool:
        """Whether nothing follows."""
        return self.kind in {"done", "failed", "stopped"}


class EventLog(Protocol):
    """Where events of turns are kept for the pages that read them."""

    async def add(self, turn_id: str, kind: str, data: Mapping[str, object]) -> None:
        """Append an event."""

    async def has(self, turn_id: str) -> bool:
        """Whether events of this turn are kept."""

    def read(self, turn_id: str, after: int) -> AsyncIterator[ChatEvent]:
        """Yield the events behind position ``after``, those to come too, until the last one."""


@dataclass
class _TurnEvents:
    events: list[ChatEvent] = field(default_factory=list)
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class MemoryEventLog:
    """Events in this process: for one computer."""

    def __init__(self) -> None:
        self._turns: dict[str, _TurnEvents] = {}
        self._dropping: set[asyncio.Task[None]] = set()

    async def add(self, turn_id: str, kind: str, data: Mapping[str, object]) -> None:
        """Append an event, and wake its readers."""
        turn = self._turns.setdefault(turn_id, _TurnEvents())
        event = ChatEvent(len(turn.events) + 1, kind, data)
        turn.events.append(event)
        turn.changed.set()
        turn.changed = asyncio.Event()
        if event.is_last:
            task = asyncio.ensure_future(self._drop(turn_id))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)

    async def has(self, turn_id: str) -> bool:
        """Whether events of this turn are kept."""
        return turn_id in self._turns

    async def read(self, turn_id: str, after: int) -> AsyncIterator[ChatEvent]:
        """Yield the events behind position ``after``, those to come too, until the last one."""
        turn = self._turns.setdefault(turn_id, _TurnEvents())
        position = max(0, after)
        while True:
            changed = turn.changed
            for event in turn.events[position:]:
                yield event
                if event.is_last:
                    return
            position = max(position, len(turn.events))
            await changed.wait()

    async def _drop(self, turn_id: str) -> None:
        await pause(KEPT_S)
        self._turns.pop(turn_id, None)
