"""Who asks at the same time gets one answer, which was asked for after they came."""

import asyncio

import pytest

from hermesops.vendor.justavps.sharing import Shared


class Question:
    """Counts how often it was asked; each answer waits until it is let out."""

    def __init__(self) -> None:
        self.asked = 0
        self.out = asyncio.Event()
        self.failure: Exception | None = None

    async def __call__(self) -> int:
        self.asked += 1
        number = self.asked
        await self.out.wait()
        if self.failure:
            raise self.failure
        return number


async def begun(question: Question, count: int) -> None:
    while question.asked < count:  # noqa: ASYNC110 - the question tells nobody
        await asyncio.sleep(0)  # noqa: TID251 - lets the tasks go on


async def test_all_who_ask_at_once_are_told_the_same() -> None:
    question = Question()
    question.out.set()
    shared = Shared(question)
    assert await asyncio.gather(*(shared() for _ in range(100))) == [1] * 100


async def test_who_comes_while_it_is_asked_is_told_what_was_asked_later() -> None:
    question = Question()
    shared = Shared(question)
    first = asyncio.create_task(shared())
    await begun(question, 1)
    late = [asyncio.create_task(shared()) for _ in range(50)]
    question.out.set()
    assert await first == 1
    assert await asyncio.gather(*late) == [2] * 50
    assert await shared() == 3


async def test_who_gives_up_leaves_the_answer_to_the_others() -> None:
    question = Question()
    shared = Shared(question)
    impatient, patient = asyncio.create_task(shared()), asyncio.create_task(shared())
    await begun(question, 1)
    impatient.cancel()
    question.out.set()
    assert await patient == 1


async def test_an_error_is_told_to_all_and_the_next_is_asked_anew() -> None:
    question = Question()
    question.out.set()
    question.failure = OSError("no answer")
    shared = Shared(question)
    assert all(isinstance(error, OSError) for error in await asyncio.gather(shared(), shared(), return_exceptions=True))
    question.failure = None
    assert await shared() == 2


async def test_nobody_waits_for_ever_for_what_was_closed() -> None:
    shared = Shared(Question())
    waiting = asyncio.create_task(shared())
    await asyncio.sleep(0)  # noqa: TID251 - as above
    await shared.close()
    with pytest.raises(asyncio.CancelledError):
        await waiting
