"""The body of an HTTP answer, read within a time and a largest size, and never unpacked: bombs are packed."""

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

import httpx

T = TypeVar("T")

LARGEST = 16 << 20
"""Bytes of an answer, where a call does not say otherwise."""

_LONGEST_LINE = 1 << 20
"""Bytes of one line of a stream of events."""


class UnreadableAnswerError(Exception):
    """An answer is incomplete in time, too large, or compressed; the message may be shown."""


class Deadline:
    """The moment by which a whole exchange has to be over, however many bytes go on coming."""

    def __init__(self, total_s: float) -> None:
        self._total_s = total_s
        self._at = asyncio.get_running_loop().time() + total_s

    def refuse_late(self) -> None:
        """Check the clock: pieces that were received already are read without a wait that would time out.

        Raises:
            UnreadableAnswerError: The time is over.
        """
        if asyncio.get_running_loop().time() >= self._at:
            raise self._late()

    async def bound(self, step: Awaitable[T]) -> T:
        """Wait for one step of the exchange.

        Raises:
            UnreadableAnswerError: The time ended first.
        """
        try:
            async with asyncio.timeout_at(self._at) as limit:
                return await step
        except TimeoutError:
            if not limit.expired():
                raise
        raise self._late()

    def _late(self) -> UnreadableAnswerError:
        return UnreadableAnswerError(f"not whole after {self._total_s:g} s")


class AnswerBody:
    """The body of one answer, still to come.

    The response stays the caller's to close; ``largest`` is in bytes.
    """

    def __init__(self, response: httpx.Response, *, deadline: Deadline, largest: int) -> None:
        self._response = response
        self._deadline = deadline
        self._largest = largest

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield it as it comes.

        Raises:
            UnreadableAnswerError: See there.
        """
        if self._response.headers.get("content-encoding", "").strip().lower() not in {"", "identity"}:
            raise UnreadableAnswerError("a compressed answer, which was not asked for")
        self._refuse_longer(_number(self._response.headers.get("content-length", "")))
        raw, received = self._response.aiter_bytes(), 0
        while piece := await self._deadline.bound(anext(raw, b"")):
            received += len(piece)
            self._refuse_longer(received)
            self._deadline.refuse_late()
            yield piece

    async def whole(self) -> bytes:
        """Read all of it; raises as ``pieces``."""
        return b"".join([piece async for piece in self.pieces()])

    async def lines(self) -> AsyncIterator[str]:
        r"""Yield its lines as they come, without their ends (``\n`` or ``\r\n``).

        Raises:
            UnreadableAnswerError: As ``pieces``; or one line alone is longer than a mebibyte.
        """
        rest = b""
        async for piece in self.pieces():
            *lines, rest = (rest + piece).split(b"\n")
            if max(map(len, (rest, *lines))) > _LONGEST_LINE:
                raise UnreadableAnswerError(f"a line of more than {_LONGEST_LINE} bytes")
            for line in lines:
                yield line.removesuffix(b"\r").decode(errors="replace")
        if rest:
            yield rest.decode(errors="replace")

    def _refuse_longer(self, size: int) -> None:
        if size > self._largest:
            raise UnreadableAnswerError(f"an answer of more than {self._largest} bytes")


def _number(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) < len(str(1 << 63)) else 0
