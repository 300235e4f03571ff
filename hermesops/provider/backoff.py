"""How the provider waits for the vendor: often at first, seldom later, and not at all once the engine wants an end."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar

from hermesops import waiting
from hermesops.provider.ports import InterruptedWorkError
from hermesops.waiting import Pending, WaitExpiredError, cancel

T = TypeVar("T")

_PACE_S = ((0.25, 3.0), (1.0, 30.0))
"""Interval and span of the first looks; later ones are ``_SLOWLY_S`` apart. A local machine boots in seconds."""
_SLOWLY_S = 3.0


@dataclass(frozen=True)
class Patience:
    """How long is waited before something counts as failed, in seconds.

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


async def patiently(check: Callable[[], Awaitable[T | Pending[T]]], *, what: str, timeout_s: float) -> T:
    """Look often at first, and seldom later; the last look is at the deadline.

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


def go_on(stopping: asyncio.Event, otherwise: str) -> None:
    """Begin nothing new once the engine wants an end.

    Raises:
        InterruptedWorkError: It wants one; says ``otherwise``.
    """
    if stopping.is_set():
        raise InterruptedWorkError(f"interrupted; {otherwise}")


async def unless_stopped(work: Coroutine[Any, Any, T], stopping: asyncio.Event, otherwise: str) -> T:
    """Do what only looks, and give it up at once when the engine wants an end.

    Raises:
        InterruptedWorkError: It was given up; says ``otherwise``.
    """
    looking = asyncio.ensure_future(work)
    stop = asyncio.ensure_future(stopping.wait())
    try:
        await asyncio.wait({looking, stop}, return_when=asyncio.FIRST_COMPLETED)
        if not looking.done():
            raise InterruptedWorkError(f"interrupted; {otherwise}")
        return looking.result()
    finally:
        await cancel(looking, stop)
