"""Events of turns that several processes of the API share through Redis, each of them sealed.

A process that carries a turn keeps its events as always, and copies them to a stream of Redis behind its work: nothing
waits for Redis. Readers of other processes read the stream, and one channel wakes them. Whatever is lost with Redis
costs speed alone: a reader that misses a piece of an answer shows no further pieces, and the last event has all of it.

Source: Redis's documentation of streams (``XADD`` with ids of its caller's, ``XRANGE`` behind an id), and of pub/sub.
"""

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import structlog
from redis.exceptions import RedisError

from hermesops.base.waiting import cancel, pause
from hermesops.errors import RefusedError
from hermesops.users.chat.events import KEPT_S, ChatEvent, EventLog

if TYPE_CHECKING:
    from redis.asyncio import Redis

    from hermesops.store.registry.encryption.sealing import Sealer

CHANNEL = "hermesops:bell:turns"
LIFE_S = 6 * 3600
"""Seconds that the events of a turn are kept while it goes on: longer than any turn may be."""

MOST_OUTGOING = 20_000
"""Events that wait for Redis; the oldest are dropped while it is away."""

_BATCH = 200
_MOST_READ = 1_000
"""Events of one answer of Redis; a reader asks again behind the last one."""

_LONGEST_ID = 64
_AGAIN_S = 1.0
_IDLE_S = 5.0
_TIME_S = 5.0
"""Seconds for one answer of Redis."""

log = structlog.get_logger()


class SharedEventLog(EventLog):
    """Events of the turns that all processes of the API carry.

    Args:
        redis: A client whose answers are bytes.
        messages: The key ring that seals what users and agents say.
    """

    def __init__(self, redis: "Redis", messages: "Sealer") -> None:
        super().__init__()
        self._redis = redis
        self._messages = messages
        self._own: set[str] = set()
        self._outgoing: deque[tuple[str, ChatEvent]] = deque(maxlen=MOST_OUTGOING)
        self._has_outgoing = asyncio.Event()
        self._is_away = False

    def begin(self, turn_id: str, carries: int) -> None:
        """Begin to carry a turn, as the ``carries``-th process that does."""
        super().begin(turn_id, carries)
        self._own.add(turn_id)

    def leave(self, turn_id: str) -> None:
        """Carry a turn no more: another process may."""
        self._own.discard(turn_id)

    def add(self, turn_id: str, kind: str, data: Mapping[str, object]) -> ChatEvent | None:
        """Append an event, wake its readers, and copy it to Redis soon."""
        event = super().add(turn_id, kind, data)
        if event is not None:
            self._outgoing.append((turn_id, event))
            self._has_outgoing.set()
        return event

    async def after(self, turn_id: str, position: int, *, wait_s: float) -> Sequence[ChatEvent]:
        """The events behind a position, of whichever process; where there are none, the next ones, or nothing."""
        if turn_id in self._own or self.has_after(turn_id, position):
            return await super().after(turn_id, position, wait_s=wait_s)
        with self._reading(turn_id) as changed:  # before Redis is asked: a bell meanwhile is heard
            if events := await self._stored(turn_id, position):
                return events
            with suppress(TimeoutError):
                await asyncio.wait_for(changed.wait(), wait_s)
                if not self.has_after(turn_id, position):
                    return await self._stored(turn_id, position)
            return await super().after(turn_id, position, wait_s=0)

    async def run(self) -> None:
        """Copy events to Redis, and hear of those of other processes, until cancelled."""
        working = [asyncio.ensure_future(self._repeated(work)) for work in (self._copy, self._listen)]
        try:
            await asyncio.gather(*working)
        finally:
            await cancel(*working)

    async def _repeated(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
                self._note_state("")
            except (RedisError, OSError, TimeoutError) as error:
                self._note_state(type(error).__name__)
                await pause(_AGAIN_S)
            except Exception:  # sharing is speed alone: nothing of it may end the process's other work
                log.exception("events_not_shared")
                await pause(_AGAIN_S)

    async def _copy(self) -> None:
        """Copy the events that wait, as one batch."""
        await self._has_outgoing.wait()
        batch = [self._outgoing.popleft() for _ in range(min(_BATCH, len(self._outgoing)))]
        if not self._outgoing:
            self._has_outgoing.clear()
        if not batch:
            return
        async with self._redis.pipeline(transaction=False) as pipeline:
            for turn_id, event in batch:
                sealed = self._sealed(turn_id, event)
                pipeline.xadd(stream_of(turn_id), {"event": sealed}, id=f"{event.id}-0")
                pipeline.expire(stream_of(turn_id), round(KEPT_S) if event.is_last else LIFE_S)
            for turn_id in {turn_id for turn_id, _ in batch}:
                pipeline.publish(CHANNEL, turn_id)
            # An id that is there already is refused: of a batch whose answer was lost.
            async with asyncio.timeout(_TIME_S):
                await pipeline.execute(raise_on_error=False)

    async def _listen(self) -> None:
        """Wake readers of turns of which other processes have events, until the connection ends."""
        async with self._redis.pubsub() as channel:
            async with asyncio.timeout(_TIME_S):
                await channel.subscribe(CHANNEL)
            self.ring()  # whatever came while nobody listened
            while True:
                message = await channel.get_message(ignore_subscribe_messages=True, timeout=_IDLE_S)
                if message is None:
                    async with asyncio.timeout(_TIME_S):
                        await channel.ping()
                elif isinstance(name := message.get("data"), bytes) and len(name) <= _LONGEST_ID:
                    self.ring(name.decode("ascii", "replace"))

    async def _stored(self, turn_id: str, position: int) -> Sequence[ChatEvent]:
        """Events behind a position that Redis has; none while it does not answer."""
        try:
            async with asyncio.timeout(_TIME_S):
                stream = stream_of(turn_id)
                rows: Any = await self._redis.xrange(stream, f"({position}-0", "+", count=_MOST_READ)
        except (RedisError, OSError, TimeoutError) as error:
            self._note_state(type(error).__name__)
            return ()
        opened = (self._opened(turn_id, id_, fields) for id_, fields in rows)
        return [event for event in opened if event is not None]

    def _sealed(self, turn_id: str, event: ChatEvent) -> str:
        return self._messages.seal(json.dumps([event.kind, event.data]), place=_place(turn_id, event.id))

    def _opened(self, turn_id: str, id_: bytes, fields: Mapping[bytes, bytes]) -> ChatEvent | None:
        """An event of Redis; ``None`` for one that none of our processes wrote for this place."""
        try:
            position = int(id_.partition(b"-")[0])
            plain = self._messages.unseal(fields[b"event"].decode(), place=_place(turn_id, position))
            kind, data = json.loads(plain)
            return ChatEvent(position, kind, data)
        except (RefusedError, ValueError, KeyError):
            return None

    def _note_state(self, failure: str) -> None:
        """Log once that Redis is away, or back."""
        if bool(failure) is not self._is_away:
            self._is_away = bool(failure)
            log.warning("redis_is_away" if failure else "redis_is_back", why=failure)


def stream_of(turn_id: str) -> str:
    """The key of a turn's stream. Pure."""
    return f"hermesops:turn:{turn_id}"


def _place(turn_id: str, position: int) -> str:
    return f"turns/events/{turn_id}:{position}"
