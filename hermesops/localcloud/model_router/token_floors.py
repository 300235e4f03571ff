"""Revoked tokens, as a model router knows them: each instance's floor, the oldest generation of tokens that counts.

A router is not notified: it reads, at its start and then every two seconds, so that one that was down when tokens were
revoked knows it before its first answer. A floor never sinks while the router runs, whatever is read.
"""

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator, Callable, Mapping

import structlog

from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.waiting import pause

EVERY_S = 2.0
"""Seconds from one reading to the next."""

STALE_AFTER_S = 300.0
"""Seconds without a reading after which no token counts.

Long enough for a database to be restarted or failed over: all users' models must not go away with it. Nothing can be
revoked while the database is away; this bounds how long a router that is cut off from a working one goes on.
"""

_AGAIN_S = 0.1
"""Seconds between readings for instances that are not known, so that an ended one's token cannot ask for more."""

log = structlog.get_logger()

ReadFloors = Callable[[], Mapping[InstanceId, int]]


class Floors:
    """Floors of all instances.

    Args:
        read: Reads them; may block, and raise ``HermesError``.
        stale_after_s: Seconds without a reading after which ``are_known`` is false.
        clock: Seconds that never go back; for tests.
    """

    def __init__(
        self,
        read: ReadFloors,
        *,
        every_s: float = EVERY_S,
        stale_after_s: float = STALE_AFTER_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._read = read
        self._every_s = every_s
        self._stale_after_s = stale_after_s
        self._clock = clock
        self._floors: dict[InstanceId, int] = {}
        self._read_at: float | None = None
        self._problem = ""
        self._reading = asyncio.Lock()

    @property
    def are_known(self) -> bool:
        """Whether they were read a short while ago; without that no token may count."""
        return self._read_at is not None and self._clock() - self._read_at <= self._stale_after_s

    def of(self, instance_id: InstanceId) -> int | None:
        """The oldest generation of an instance's tokens that counts; ``None`` for one that the registry lacks."""
        return self._floors.get(instance_id)

    async def of_newest(self, instance_id: InstanceId) -> int | None:
        """The same; for an instance that the last reading lacked, reads once more: it may be newer than that.

        A user who was given an agent of a warm pool writes to it within a second.
        """
        async with self._reading:
            lacks = instance_id not in self._floors
            if lacks and (self._read_at is None or self._clock() - self._read_at >= _AGAIN_S):
                await self.read()
        return self.of(instance_id)

    @contextlib.asynccontextmanager
    async def kept(self) -> AsyncIterator[None]:
        """Read them again and again for the length of a ``with``."""
        keeper = asyncio.create_task(self._keep(), name="read floors of model tokens")
        try:
            yield
        finally:
            keeper.cancel()
            await asyncio.gather(keeper, return_exceptions=True)

    async def _keep(self) -> None:
        while True:
            await self.read()
            await pause(self._every_s)

    async def read(self) -> None:
        """Read them once; what keeps that from succeeding is logged once."""
        asked_at = self._clock()
        try:
            found = await asyncio.to_thread(self._read)
        except Exception as error:  # noqa: BLE001 - the router goes on with what it knows until that is stale
            self._report(error.message if isinstance(error, HermesError) else f"{type(error).__name__}: {error}")
            return
        # As of before the question: a revocation during it may be missing.
        self._read_at = asked_at
        self._floors = {
            instance_id: max(floor, self._floors.get(instance_id, floor)) for instance_id, floor in found.items()
        }
        self._report("")

    def _report(self, problem: str) -> None:
        """Log a problem once, and its end; empty for none."""
        if problem and problem != self._problem:
            log.warning("floors_not_read", problem=problem)
        elif self._problem and not problem:
            log.info("floors_read_again")
        self._problem = problem
