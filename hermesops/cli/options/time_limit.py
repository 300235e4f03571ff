"""``--timeout``: after that time a command stops waiting, and names the command that follows what it began.

What was begun is never undone. An operation or a rollout is left to the workers; anything else is continued by the same
command. It ends with 4, as everything that is safe to repeat.
"""

import asyncio
import math
import time
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from hermesops.errors import HermesError, Hint, UnavailableError

T = TypeVar("T")


@dataclass
class TimeLimit:
    """The limit of this command; infinite without the option.

    Attributes:
        seconds: As typed.
        deadline: Moment of ``time.monotonic``, counted from the reading of the command line.
        left: The error that says where the work is left; ``None`` for the general one.
    """

    seconds: float = math.inf
    deadline: float = math.inf
    left: HermesError | None = None

    def begin(self, seconds: float) -> None:
        """Begin to count the seconds of the limit."""
        self.seconds, self.deadline, self.left = seconds, time.monotonic() + seconds, None

    def is_over(self) -> bool:
        """Whether the seconds of the limit are over."""
        return time.monotonic() >= self.deadline

    async def keep(self, work: Coroutine[Any, Any, T]) -> T:
        """Wait for work until the deadline; then it is cancelled, and cleans up first.

        Raises:
            UnavailableError: The time is up.
        """
        if math.isinf(self.deadline):
            return await work
        try:
            async with asyncio.timeout(max(0.0, self.deadline - time.monotonic())) as timeout:
                return await work
        except TimeoutError:
            if not timeout.expired():
                raise
        raise self.left or self.error("the work", Hint("the same command again continues it"))

    def error(self, subject: str, hint: Hint) -> UnavailableError:
        """The error of a command whose time is up; ``hint`` is the command that follows the subject."""
        return UnavailableError(f"{subject} did not end within {self.seconds:g} s; it is not undone", hint=hint)

    @contextmanager
    def leaving(self, leave: Callable[[], HermesError]) -> Iterator[None]:
        """Call ``leave`` where the time is up within; its error tells the operator where the work is left."""
        try:
            yield
        except asyncio.CancelledError:
            if self.is_over():
                self.left = leave()
            raise


limit = TimeLimit()
"""Of this process's command."""
