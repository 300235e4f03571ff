"""Blocking calls of foreign libraries, bounded in time and size: a silent server delays only its caller.

Clients such as botocore's and requests' bound each read of an answer, not the answer: one that drips satisfies them for
ever, and one without end is kept in memory. A thread cannot be ended from outside, so a late call is abandoned, and
refuses to ask anything more.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

from hermesops.errors import UnavailableError

if TYPE_CHECKING:
    from urllib3.response import BaseHTTPResponse

T = TypeVar("T")

_MOST_ABANDONED = 16
"""Threads of a process that may still wait for one and the same; with more of them it is not asked."""

_OF_SERVICE = 32
"""Threads of a service for calls of its database. asyncio's own number is six on two cores, and six writes that wait
for a slow disk would hold every read."""

_PIECE = 1 << 16
_HINT = "run the same command again"

_deadline: ContextVar[float] = ContextVar("_deadline")
_abandoned: set[threading.Thread] = set()


async def call(work: Callable[[], T], *, whom: str, within_s: float) -> T:
    """Do blocking work in a thread of its own and return its result.

    Args:
        whom: Who is asked, to begin a message with.
        within_s: Seconds until the work is abandoned.

    Raises:
        UnavailableError: It was abandoned, or too many others were.
    """
    thread, done = _started(work, whom, within_s)
    try:
        async with asyncio.timeout(within_s) as limit:
            return await asyncio.wrap_future(done)
    except TimeoutError as error:
        raise (_late(whom, within_s) if limit.expired() else error) from error
    finally:
        _leave(thread, done)


def wait(work: Callable[[], T], *, whom: str, within_s: float) -> T:
    """Do blocking work as ``call`` does, and block the caller meanwhile."""
    thread, done = _started(work, whom, within_s)
    try:
        return done.result(within_s)
    except TimeoutError as error:
        raise (error if done.done() else _late(whom, within_s)) from error
    finally:
        _leave(thread, done)


def give_threads() -> None:
    """Give the running loop, one of a service, threads enough that calls that wait hold no others."""
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(_OF_SERVICE, "call"))


def refuse_late(whom: str) -> None:
    """Go on unless the work that this is part of was abandoned: somebody else may have done it since.

    Raises:
        UnavailableError: It was.
    """
    if time.monotonic() > _deadline.get(float("inf")):
        raise UnavailableError(f"{whom} has answered too late", hint=_HINT)


def read(raw: "BaseHTTPResponse", *, whom: str, largest: int) -> bytes:
    """Read an answer of urllib3's to its end, and close it.

    Args:
        raw: The answer, none of which was read.
        largest: Bytes that are taken.

    Raises:
        UnavailableError: It is larger, or comes too late.
        urllib3.exceptions.HTTPError: It broke off.
    """
    pieces = bytearray()
    try:
        while piece := raw.read1(_PIECE):
            refuse_late(whom)
            pieces += piece
            if len(pieces) > largest:
                raise UnavailableError(f"{whom} answers with more than {largest} bytes", hint=_HINT)
    finally:
        raw.close()
    return bytes(pieces)


def _started(work: Callable[[], T], whom: str, within_s: float) -> tuple[threading.Thread, Future[T]]:
    _abandoned.intersection_update({thread for thread in _abandoned if thread.is_alive()})
    left = sum(thread.name == whom for thread in _abandoned)  # of others: they keep nobody from asking this one
    if left >= _MOST_ABANDONED:
        raise UnavailableError(f"{whom} gets no request: {left} earlier calls have not ended")
    done: Future[T] = Future()
    done.set_running_or_notify_cancel()  # from now on nobody but the thread says what it came to

    def run() -> None:
        _deadline.set(time.monotonic() + within_s)
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001 - it is the caller's to see
            done.set_exception(error)

    # A daemon: the process does not wait for it at its end, as it would for asyncio.to_thread.
    thread = threading.Thread(target=run, name=whom, daemon=True)
    thread.start()
    return thread, done


def _leave(thread: threading.Thread, done: Future[T]) -> None:
    if not done.done():
        _abandoned.add(thread)


def _late(whom: str, within_s: float) -> UnavailableError:
    return UnavailableError(f"{whom} gives no answer within {within_s:g} s", hint=_HINT)
