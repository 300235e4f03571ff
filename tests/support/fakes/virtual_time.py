"""An event loop whose clock jumps: hours of waiting pass at once, in the order in which they would."""

import asyncio
import selectors
from collections.abc import Coroutine
from datetime import UTC, datetime, timedelta
from typing import Any, TypeVar

T = TypeVar("T")

BEGAN = datetime(2026, 1, 5, 12, tzinfo=UTC)
"""A Monday at noon."""


class _Jumping(selectors.DefaultSelector):
    """Never waits: what it should have waited is added to the clock."""

    jumped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0:
            self.jumped += timeout
            timeout = 0
        return super().select(timeout)


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop for coroutines that wait for nothing but time and one another."""

    def __init__(self, began_s: float = 0.0) -> None:
        self._jumping = _Jumping()
        self._jumping.jumped = began_s
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.jumped


class VirtualClock:
    """The loop's time, as a moment; goes on from run to run."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def now(self) -> datetime:
        return BEGAN + timedelta(seconds=asyncio.get_running_loop().time())

    async def pause(self, seconds: float) -> None:
        await asyncio.sleep(seconds)  # noqa: TID251 - no time passes

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """Run to the end, from where the last run ended."""
        loops: list[VirtualLoop] = []

        def make() -> VirtualLoop:
            loops.append(VirtualLoop(self.seconds))
            return loops[0]

        try:
            with asyncio.Runner(loop_factory=make) as runner:
                return runner.run(work)
        finally:
            self.seconds = loops[0].time()
