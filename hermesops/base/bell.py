"""A bell that wakes who waits for rows. Nothing is lost where it does not ring: who waits looks by itself as well."""

import asyncio


class Bell:
    """Rings inside one event loop; a ring that nobody waits for ends the next wait."""

    def __init__(self) -> None:
        self._rung = asyncio.Event()

    def ring(self) -> None:
        """Wake the one that waits, or let its next wait end at once."""
        self._rung.set()

    async def wait(self, at_most_s: float) -> None:
        """Wait for a ring.

        Args:
            at_most_s: Seconds after which it ends without one.
        """
        try:
            async with asyncio.timeout(at_most_s):
                await self._rung.wait()
        except TimeoutError:
            return
        self._rung.clear()
