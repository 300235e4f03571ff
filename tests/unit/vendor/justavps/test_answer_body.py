"""The body of an answer: what comes without a pause ends at its deadline, too."""

from collections.abc import AsyncIterator

import httpx
import pytest

from hermesops.vendor.justavps.answer_body import AnswerBody, Deadline, UnreadableAnswerError


class _Crumbs(httpx.AsyncByteStream):
    """Single bytes without end, each there before it is asked for.

    Attributes:
        read: How many were read.
    """

    def __init__(self) -> None:
        self.read = 0

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while True:
            self.read += 1
            yield b"x"


async def test_what_is_there_already_and_never_ends_is_late_in_time() -> None:
    body = AnswerBody(httpx.Response(200, stream=_Crumbs()), deadline=Deadline(0.2), largest=1 << 17)
    with pytest.raises(UnreadableAnswerError, match=r"not whole after 0\.2 s"):
        async for _ in body.pieces():
            pass


async def test_no_more_of_an_endless_answer_is_read_than_the_largest_has() -> None:
    crumbs = _Crumbs()
    body = AnswerBody(httpx.Response(200, stream=crumbs), deadline=Deadline(20), largest=100)
    with pytest.raises(UnreadableAnswerError, match="an answer of more than 100 bytes"):
        await body.whole()
    assert crumbs.read == 101
