"""The same work on many: one that fails, breaks or hangs costs only itself."""

import asyncio

import pytest

from hermesops.base.fan_out import Limits, as_they_come, fan_out, problems
from hermesops.errors import HermesError, RefusedError, UnavailableError
from tests.support.fakes.virtual_time import VirtualClock

LIMITS = Limits(at_once=2, slow_after_s=10, within_s=100)


async def _work(item: str) -> str:
    match item:
        case "refuses":
            raise RefusedError("no")
        case "breaks":
            raise ZeroDivisionError("by zero")
        case "times out by itself":
            raise TimeoutError("the work's own")
        case "hangs":
            await asyncio.Event().wait()
        case _:
            await asyncio.sleep(1)  # noqa: TID251 - virtual
    return f"done {item}"


def _run(*items: str) -> tuple[list[str | HermesError], float]:
    clock = VirtualClock()
    done = clock.run(fan_out(items, _work, LIMITS))
    return done, clock.seconds


def test_each_has_its_outcome_in_the_order_of_the_items() -> None:
    done, _ = _run("a", "refuses", "breaks", "hangs", "times out by itself", "b")
    assert [type(outcome) for outcome in done] == [str, RefusedError, HermesError, UnavailableError, HermesError, str]
    assert [str(outcome) for outcome in done[1:5]] == [
        "no",
        "a bug: ZeroDivisionError: by zero",
        "not done after 100 s, and given up",
        "a bug: TimeoutError: the work's own",
    ]


def test_those_that_hang_give_their_places_to_others() -> None:
    done, _ = _run("hangs", "hangs", *"abcd")
    assert done[2:] == [f"done {item}" for item in "abcd"]


def test_no_more_than_that_many_are_at_it_while_none_is_slow() -> None:
    _, seconds = _run(*"abcdef")
    assert seconds == pytest.approx(3)


def test_the_others_are_through_long_before_those_that_hang_are_given_up() -> None:
    ended: list[float] = []

    async def timed(item: str) -> None:
        await _work(item)
        ended.append(asyncio.get_running_loop().time())

    clock = VirtualClock()
    clock.run(fan_out(["hangs", "hangs", "hangs", *"abcd"], timed, LIMITS))
    assert max(ended) == pytest.approx(14)  # ten for two places; then one place for four, as a third hangs in the other
    assert clock.seconds == pytest.approx(110)


def test_none_begins_after_the_time_in_which_all_have_to() -> None:
    limits = Limits(at_once=2, slow_after_s=10, within_s=100, begun_within_s=25)
    clock = VirtualClock()
    done = clock.run(fan_out(["hangs"] * 6 + ["a", "b"], _work, limits))
    assert [str(outcome)[:9] for outcome in done] == ["not done "] * 6 + ["not begun"] * 2
    assert clock.seconds == pytest.approx(120)
    assert limits.longest_s(1000) == 125


def test_whoever_is_cancelled_leaves_nothing_running() -> None:
    async def cancelled() -> set[str]:
        work = asyncio.ensure_future(fan_out(["hangs"] * 5, _work, LIMITS))
        await asyncio.sleep(15)  # noqa: TID251 - virtual
        work.cancel()
        await asyncio.wait({work})
        return {task.get_name() for task in asyncio.all_tasks() - {asyncio.current_task()}}

    assert VirtualClock().run(cancelled()) == set()


def test_problems_are_words_and_empty_for_none() -> None:
    assert VirtualClock().run(problems({"A": "a", "R": "refuses"}, _work, LIMITS)) == {"A": "", "R": "no"}


class Rows:
    """Items that fall due at their second, and are due until their work is done."""

    def __init__(self, **at: float) -> None:
        self.at = at
        self.begun: list[tuple[str, float]] = []

    def due(self) -> list[str]:
        now = asyncio.get_running_loop().time()
        return [item for item, at in self.at.items() if at <= now]

    async def work(self, item: str) -> None:
        self.begun.append((item, round(asyncio.get_running_loop().time())))
        await _work(item.partition("_")[0])
        del self.at[item]


def test_whatever_falls_due_meanwhile_waits_for_none_that_hangs() -> None:
    rows, clock = Rows(hangs=0, a=5, b=50), VirtualClock()
    assert clock.run(as_they_come(rows.due, rows.work, LIMITS)) == 3
    assert dict(rows.begun) == {"hangs": 0, "a": 5, "b": 50}
    assert clock.seconds == pytest.approx(100), "the one that hangs is given up, and not begun again by itself"


def test_an_item_that_is_due_again_is_begun_again_and_never_twice_at_a_time() -> None:
    rows, clock = Rows(hangs=0, refuses=3), VirtualClock()
    clock.run(as_they_come(rows.due, rows.work, Limits(2, 10, 20)))
    assert [item for item, _ in rows.begun].count("hangs") == 1
    assert len([item for item, _ in rows.begun if item == "refuses"]) in range(10, 20)


def test_none_is_begun_after_that_time() -> None:
    rows, clock = Rows(hangs=0, a=5, b=50), VirtualClock()
    assert clock.run(as_they_come(rows.due, rows.work, Limits(2, 10, 100, begun_within_s=30))) == 2


def test_the_end_of_the_process_ends_all() -> None:
    class EndError(BaseException):
        """The process ends."""

    async def end(item: str) -> None:
        if item == "end":
            raise EndError
        await _work(item)

    with pytest.raises(EndError):
        VirtualClock().run(as_they_come(lambda: ["hangs", "end"], end, LIMITS))
