"""A bell between the users' API and the connector, through Redis: a message that one stored is routed by the other.

Nothing waits for Redis, and nothing is lost with it: the connector looks for messages every second as well. What rings
has no content, so whoever else reaches the channel makes the connector look once more, and nothing else.

Source: Redis's documentation of pub/sub.
"""

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING

import structlog
from redis.exceptions import RedisError

from hermesops.base.bell import Bell
from hermesops.base.waiting import pause

if TYPE_CHECKING:
    from redis.asyncio import Redis

CHANNEL = "hermesops:bell:messages"

_AGAIN_S = 1.0
_IDLE_S = 5.0
_TIME_S = 5.0
"""Seconds for one answer of Redis."""

log = structlog.get_logger()


class SharedBell:
    """The bell of all processes.

    Args:
        redis: A client; it connects when it is first asked.
    """

    def __init__(self, redis: "Redis") -> None:
        self._redis = redis
        self._rung = asyncio.Event()
        self._is_away = False

    def ring(self) -> None:
        """Have other processes hear it soon; rings of one moment are one."""
        self._rung.set()

    async def publish(self) -> None:
        """Pass rings on to Redis until cancelled; one that cannot be passed on is dropped."""
        await self._repeated(self._publish)

    async def listen(self, bell: Bell) -> None:
        """Ring a bell of this process at each ring of another one, until cancelled."""
        await self._repeated(partial(self._listen, bell))

    async def _publish(self) -> None:
        await self._rung.wait()
        self._rung.clear()
        async with asyncio.timeout(_TIME_S):
            await self._redis.publish(CHANNEL, b"")
        self._note_state("")

    async def _listen(self, bell: Bell) -> None:
        async with self._redis.pubsub() as channel:
            async with asyncio.timeout(_TIME_S):
                await channel.subscribe(CHANNEL)
            self._note_state("")
            bell.ring()  # whatever came while nobody listened
            while True:
                message = await channel.get_message(ignore_subscribe_messages=True, timeout=_IDLE_S)
                if message is None:
                    async with asyncio.timeout(_TIME_S):
                        await channel.ping()
                elif message["type"] == "message":
                    bell.ring()

    async def _repeated(self, work: Callable[[], Awaitable[None]]) -> None:
        while True:
            try:
                await work()
            except (RedisError, OSError, TimeoutError) as error:
                self._note_state(type(error).__name__)
                await pause(_AGAIN_S)
            except Exception:  # ringing is speed alone: nothing of it may end the process's other work
                log.exception("bell_not_shared")
                await pause(_AGAIN_S)

    def _note_state(self, failure: str) -> None:
        """Log once that Redis is away, or back."""
        if bool(failure) is not self._is_away:
            self._is_away = bool(failure)
            log.warning("redis_is_away" if failure else "redis_is_back", why=failure)
