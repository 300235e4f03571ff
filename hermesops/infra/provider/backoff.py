"""Shared by actions on machines and on images: the vendor, polling with growing intervals, and deletion.

Every wait ends once the engine cancels.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.base import waiting
from hermesops.base.waiting import Pending, WaitExpiredError, cancel
from hermesops.errors import Hint, RefusedError, UnknownOutcomeError
from hermesops.infra.provider.observation import InterruptedWorkError, Observed

if TYPE_CHECKING:
    from hermesops.infra.provider.vendor import JustAvps  # loads the vendor's client

T = TypeVar("T")

Reporter = Callable[[str], Awaitable[None]]
"""Passes a line of progress to the engine."""

_PACE_S = ((0.25, 3.0), (1.0, 30.0))
"""Interval and span of the first polls; later ones are ``_SLOWLY_S`` apart. A local machine boots in seconds."""
_SLOWLY_S = 3.0


@dataclass(frozen=True)
class Timeouts:
    """Timeouts in seconds.

    Attributes:
        ready: For a machine to become ready, when the program sets no timeout of its own.
        saved: For an image to be saved; it was seen to take tens of minutes.
        newborn: During which a machine just ordered may be unknown to the vendor (60 s seen in practice).
        broken: During which one with status ``error`` may still recover by itself.
        gone: For a deleted one to vanish.
    """

    ready: float = 900
    saved: float = 3600
    newborn: float = 60
    broken: float = 60
    gone: float = 120


@dataclass
class Actions:
    """The actions on one type of resource, at one vendor. Timeouts are seconds; 0 takes the default.

    Attributes:
        open_vendor: Opens the vendor when the first resource is needed, since most runs of an engine find nothing to
            do. What it raises reaches the operator.
        stopping: Set when the engine wants an end: nothing new is begun, and waits are given up.
    """

    open_vendor: Callable[[], "JustAvps"]
    timeouts: Timeouts = field(default_factory=Timeouts)
    stopping: asyncio.Event = field(default_factory=asyncio.Event)

    @cached_property
    def vendor(self) -> "JustAvps":
        """The opened client of the vendor."""
        return self.open_vendor()


async def poll(check: Callable[[], Awaitable[T | Pending[T]]], *, what: str, timeout_s: float) -> T:
    """Check often at first, and seldom later; the last check is at the deadline.

    Raises:
        WaitExpiredError: The deadline passed.
    """
    left = timeout_s
    for every_s, span_s in _PACE_S:
        if left <= span_s:
            return await waiting.until(check, what=what, timeout_s=left, every_s=every_s)
        try:
            return await waiting.until(check, what=what, timeout_s=span_s, every_s=every_s)
        except WaitExpiredError:
            left -= span_s
    return await waiting.until(check, what=what, timeout_s=left, every_s=_SLOWLY_S)


def refuse_if_stopping(stopping: asyncio.Event, otherwise: str) -> None:
    """Start nothing new once the engine cancels.

    Raises:
        InterruptedWorkError: The engine cancelled; ``otherwise`` is the message.
    """
    if stopping.is_set():
        raise InterruptedWorkError(f"interrupted; {otherwise}")


async def unless_stopped(work: Coroutine[Any, Any, T], stopping: asyncio.Event, otherwise: str) -> T:
    """Run a call that only reads; stop it at once when the engine cancels.

    Raises:
        InterruptedWorkError: It was stopped; ``otherwise`` is the message.
    """
    reading = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({reading, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not reading.done():
            raise InterruptedWorkError(f"interrupted; {otherwise}")
        return reading.result()
    finally:
        await cancel(reading, stop)


async def delete_and_wait(
    what: str,
    name: str,
    *,
    read: Callable[[], Awaitable[Observed | None]],
    delete: Callable[[], Awaitable[None]],
    timeout_s: float,
    stopping: asyncio.Event,
) -> None:
    """Delete a machine or image for good, and wait until the vendor lists none of that id; absent is success.

    ``what`` is ``machine`` or ``image``; ``read`` answers None when it is gone.

    Raises:
        RefusedError: Its name differs from the state's, or the vendor refused.
        UnavailableError: The deletion could not be confirmed; safe to repeat.
        InterruptedWorkError: The engine stopped before the deletion was confirmed; safe to repeat.
    """
    refuse_if_stopping(stopping, f"{what} {name} was not deleted")
    observed = await read()
    if observed is None:
        return
    refuse_other_name(what, observed, name)
    lost = ""
    try:
        await delete()
    except UnknownOutcomeError as error:
        lost = f" (the answer was lost: {error.message})"

    async def is_gone() -> bool | Pending[bool]:
        current = await read()
        return current is None or Pending(current.status)

    it = f"{what} {name} ({observed.id})"
    await unless_stopped(
        poll(is_gone, what=f"{it} to be gone{lost}", timeout_s=timeout_s),
        stopping,
        f"{it} was not confirmed as deleted{lost}",
    )


def refuse_other_name(what: str, observed: Observed, name: str) -> None:
    """Refuse to change a thing with another name than in the state.

    Raises:
        RefusedError: It has another name.
    """
    if observed.name != name:
        raise RefusedError(
            f"{what} {observed.id} is named {observed.name!r} at the vendor, and {name!r} in the state: not changed",
            hint=Hint(("stack", "export", "CELL"), "shows the state"),
        )
