"""Blocking calls of the object store's API, bounded in time and size: a store that never ends delays its caller.

botocore bounds each read of an answer, not the answer: one that drips satisfies it for ever, and one without end is
kept in memory (botocore.config.Config, ``read_timeout``; botocore.httpsession). A thread cannot be ended from outside,
so a late call is abandoned, and asks the store nothing more.
"""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, TypeVar

from hermesops.errors import UnavailableError

if TYPE_CHECKING:
    from botocore.awsrequest import AWSPreparedRequest
    from urllib3.response import BaseHTTPResponse

T = TypeVar("T")

CALL_S = 60.0
"""Seconds for a call of a few requests."""

_LARGEST = 16 << 20
"""Bytes of an answer: a page of a thousand keys, the largest that S3 gives, has less than one megabyte."""

_PIECE = 1 << 16
_MOST_ABANDONED = 16
"""Threads that may still wait for a store; with more of them nobody asks any store."""

_HINT = "no agent is touched by that; run the same command again"

_deadline: ContextVar[float] = ContextVar("_deadline")
_abandoned: set[threading.Thread] = set()


async def call(work: Callable[..., T], *args: Any, within_s: float = CALL_S, **named: Any) -> T:  # noqa: ANN401 - handed on
    """Do blocking work with a store in a thread of its own, and return what it returns.

    Args:
        work: Asks the store through clients that ``bound_answers`` was told of.
        *args: Of ``work``.
        within_s: Seconds until it is abandoned.
        **named: Of ``work``.

    Raises:
        UnavailableError: It was abandoned, or too many others wait for a store.
    """
    _abandoned.intersection_update({thread for thread in _abandoned if thread.is_alive()})
    if len(_abandoned) >= _MOST_ABANDONED:
        raise UnavailableError(f"the object store has left {len(_abandoned)} calls without an end", hint=_HINT)
    loop = asyncio.get_running_loop()
    done: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        _deadline.set(time.monotonic() + within_s)
        result: T | None = None
        error: BaseException | None = None
        try:
            result = work(*args, **named)
        except BaseException as raised:  # noqa: BLE001 - it is the caller's to see
            error = raised
        with suppress(RuntimeError):  # the loop has ended: nobody waits any more
            loop.call_soon_threadsafe(_settle, done, result, error)

    # A daemon: the process does not wait for a store at its end, as it would for asyncio.to_thread.
    thread = threading.Thread(target=run, name="object store", daemon=True)
    thread.start()
    try:
        async with asyncio.timeout(within_s) as limit:
            return await done
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise UnavailableError(f"the object store has not answered within {within_s:g} s", hint=_HINT) from error
    finally:
        if done.cancelled():
            _abandoned.add(thread)


def bound_answers(client: Any) -> None:  # noqa: ANN401 - the stubs of boto3's clients lack what is used here
    """Make a client of boto3's keep to the deadline of a ``call`` and to a largest answer.

    Its requests go out as before, except those of a call that was abandoned: somebody else may have done that since.
    """
    session: Any = client._endpoint.http_session  # noqa: SLF001 - the client's own, with its proxies and certificates

    def send(request: "AWSPreparedRequest", **_: object) -> Any:  # noqa: ANN401 - as above
        _refuse_late()
        request.stream_output = True  # the answer is read here, not by the session
        answer = session.send(request)
        # What an answer holds is asked of it once; whoever asks afterwards finds it there (botocore.awsrequest).
        answer._content = _read(answer.raw)  # noqa: SLF001
        return answer

    client.meta.events.register("before-send", send)


def _read(raw: "BaseHTTPResponse") -> bytes:
    from botocore.exceptions import ResponseStreamingError  # noqa: PLC0415 - loads for half a second
    from urllib3.exceptions import HTTPError  # noqa: PLC0415 - as above

    pieces = bytearray()
    try:
        while piece := raw.read1(_PIECE):
            _refuse_late()
            pieces += piece
            if len(pieces) > _LARGEST:
                raise UnavailableError(f"the object store answers with more than {_LARGEST} bytes", hint=_HINT)
    except HTTPError as error:
        raise ResponseStreamingError(error=error) from error
    finally:
        raw.close()
    return bytes(pieces)


def _refuse_late() -> None:
    if time.monotonic() > _deadline.get(float("inf")):
        raise UnavailableError("the object store has answered too late", hint=_HINT)


def _settle(done: asyncio.Future[T], result: Any, error: BaseException | None) -> None:  # noqa: ANN401 - handed on
    if done.done():
        return
    if error is not None:
        done.set_exception(error)
    else:
        done.set_result(result)
