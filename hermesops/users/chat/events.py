"""Events of turns, as pages read them: kept until some minutes after a turn's end, and read from any place.

They are in this process; ``shared_events`` shares them with other ones. Losing them costs speed alone: pages then get
the answer from the agent's transcript.
"""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from hermesops.base.waiting import pause

KEPT_S = 600.0
"""Seconds after a turn's end until its events are dropped."""

MOST_CHARACTERS = 4 << 20
"""Characters of one turn's events; further pieces of the answer are left out, and its end has all of it."""

STEP = 1_000_000
"""Events of a process that carries a turn after another one have higher positions than any of the other's."""

HOLE = STEP // 2
"""Added to an event's position where a reader missed pieces of the answer before it: whoever resumes behind it, at
whichever process, gets no further pieces, since an answer with a hole is worse than one that comes whole."""

MOST_EVENTS = 100_000
"""Events of one carrier that are kept, far below ``HOLE``; further ones are left out, but for the last one."""

_LAST = frozenset({"done", "failed", "stopped"})


@dataclass(frozen=True)
class ChatEvent:
    """An event of a turn.

    Attributes:
        id: Position in the turn; grows.
        kind: ``delta``, ``tool``, ``approval``, ``resolved``, ``done``, ``failed`` or ``stopped``.
        data: JSON of the event.
    """

    id: int
    kind: str
    data: Mapping[str, object] = field(repr=False)

    @property
    def is_last(self) -> bool:
        """Whether no event of the turn follows this one."""
        return self.kind in _LAST

    def follows(self, position: int) -> bool:
        """Whether nothing lies between a position and this event, in the events of its carrier."""
        return self.id == position + 1 or self.id % STEP == 1

    def behind_hole(self) -> "ChatEvent":
        """This event as somebody gets it who missed pieces before it."""
        return replace(self, id=self.id + HOLE)


def place_of(position: int) -> tuple[int, bool]:
    """The position that a reader's cursor stands for, and whether the reader missed pieces before it. Pure."""
    has_hole = position % STEP > HOLE
    return position - HOLE if has_hole else position, has_hole


@dataclass
class _TurnEvents:
    events: list[ChatEvent] = field(default_factory=list)
    next_id: int = 1
    characters: int = 0
    readers: int = 0
    changed: asyncio.Event = field(default_factory=asyncio.Event)


class EventLog:
    """Events of the turns that this process carries."""

    def __init__(self) -> None:
        self._turns: dict[str, _TurnEvents] = {}
        self._dropping: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Exchange events with other processes until cancelled; this log is of one process, and has nothing to do."""

    def begin(self, turn_id: str, carries: int) -> None:
        """Begin to carry a turn, as the ``carries``-th process that does."""
        turn = self._turns.setdefault(turn_id, _TurnEvents())
        turn.next_id = max(turn.next_id, (carries - 1) * STEP + 1)

    def leave(self, turn_id: str) -> None:
        """Carry a turn no more; its events stay."""

    def add(self, turn_id: str, kind: str, data: Mapping[str, object]) -> ChatEvent | None:
        """Append an event, and wake its readers; ``None`` for what is left out of a turn that has too many."""
        turn = self._turns.setdefault(turn_id, _TurnEvents())
        if kind == "delta":
            turn.characters += len(str(data.get("text")))
        is_long = kind == "delta" and turn.characters > MOST_CHARACTERS
        if is_long or (turn.next_id % STEP > MOST_EVENTS and kind not in _LAST):
            return None
        event = ChatEvent(turn.next_id, kind, data)
        turn.events.append(event)
        turn.next_id += 1
        self.ring(turn_id)
        if event.is_last:
            task = asyncio.ensure_future(self._drop(turn_id))
            self._dropping.add(task)
            task.add_done_callback(self._dropping.discard)
        return event

    async def after(self, turn_id: str, position: int, *, wait_s: float) -> Sequence[ChatEvent]:
        """The events behind a position; where there are none yet, the next ones, or nothing after ``wait_s``."""
        with self._reading(turn_id) as changed:
            if not self.has_after(turn_id, position):
                try:
                    await asyncio.wait_for(changed.wait(), wait_s)
                except TimeoutError:
                    return ()
            return [event for event in self._turns[turn_id].events if event.id > position]

    def has_after(self, turn_id: str, position: int) -> bool:
        """Whether an event behind a position is kept here."""
        events = self._turns.get(turn_id, _TurnEvents()).events
        return bool(events) and events[-1].id > position

    def ring(self, turn_id: str = "") -> None:
        """Wake the readers of a turn, or of all turns."""
        for turn in (self._turns.get(turn_id),) if turn_id else self._turns.values():
            if turn is not None:
                turn.changed.set()
                turn.changed = asyncio.Event()

    def unresolved(self, turn_id: str) -> frozenset[str]:
        """Ids of requests for approval that pages still show as open."""
        turn = self._turns.get(turn_id, _TurnEvents())
        requested = {str(event.data["id"]) for event in turn.events if event.kind == "approval"}
        return frozenset(requested - {str(event.data["id"]) for event in turn.events if event.kind == "resolved"})

    def ends_after(self, turn_id: str, position: int) -> bool:
        """Whether the turn's last event is kept, and is behind a position."""
        events = self._turns.get(turn_id, _TurnEvents()).events
        return bool(events) and events[-1].is_last and events[-1].id > position

    @contextmanager
    def _reading(self, turn_id: str) -> Iterator[asyncio.Event]:
        """Hold a turn for a reader; the event is set once something has happened since.

        A turn without events is forgotten with its last reader: it is carried elsewhere, or not yet.
        """
        turn = self._turns.setdefault(turn_id, _TurnEvents())
        turn.readers += 1
        try:
            yield turn.changed
        finally:
            turn.readers -= 1
            if not (turn.readers or turn.events or turn.next_id > 1):
                self._turns.pop(turn_id, None)

    async def _drop(self, turn_id: str) -> None:
        await pause(KEPT_S)
        self._turns.pop(turn_id, None)
