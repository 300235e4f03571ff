"""Many cases in one test: each is run, and each that fails is named."""

import asyncio
from collections.abc import Iterator
from enum import Enum

import pytest

from tests.support.suite.cases import each_case


class Colour(Enum):
    RED = 1
    BLUE = 2


def test_each_case_is_run_with_all_others() -> None:
    drawn_cases: list[tuple[int, str, Colour]] = []

    @each_case("number", [1, 2])
    @each_case(("text", "colour"), [("a", Colour.RED), pytest.param("b", Colour.BLUE, id="x")])
    def check(number: int, text: str, colour: Colour) -> None:
        drawn_cases.append((number, text, colour))

    check()
    assert drawn_cases == [(1, "a", Colour.RED), (1, "b", Colour.BLUE), (2, "a", Colour.RED), (2, "b", Colour.BLUE)]


def test_every_case_that_fails_is_named_and_the_others_are_run() -> None:
    numbers: list[int] = []

    @each_case("number", range(6), ids=lambda number: f"case {number}")
    def check(number: int) -> None:
        numbers.append(number)
        if number == 1:
            raise KeyError("one")
        with pytest.raises(ValueError, match="four"):
            raise ValueError("four" if number != 4 else "five")

    with pytest.raises(KeyError) as raised:
        check()
    assert numbers == [0, 1, 2, 3, 4, 5]
    first, second = raised.value.__notes__
    assert first == "failed: case 1: KeyError: 'one'"
    assert second.startswith("failed: case 4: AssertionError")


def test_a_case_in_which_nothing_is_raised_that_should_be_fails() -> None:
    @each_case("text", ["one", "2"])
    def check(text: str) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            int(text)

    with pytest.raises(pytest.fail.Exception, match="DID NOT RAISE") as raised:
        check()
    assert [note.partition(": Failed")[0] for note in raised.value.__notes__] == ["failed: '2'"]


def test_cases_within_cases_are_all_named() -> None:
    @each_case("number", [1, 2])
    @each_case("text", ["a", "b"])
    def check(number: int, text: str) -> None:
        assert text == "a", f"{text} of {number}"

    with pytest.raises(AssertionError) as raised:
        check()
    output = "\n".join(raised.value.__notes__)
    assert "b of 1" in output
    assert "b of 2" in output


def test_cases_are_found_when_they_are_run() -> None:
    names: list[str] = []

    def values() -> Iterator[str]:
        names.append("found")
        yield "a"

    @each_case("text", values)
    async def check(text: str) -> None:
        await asyncio.sleep(0)  # noqa: TID251 - lets another task run
        names.append(text)

    assert names == []
    asyncio.run(check())
    assert names == ["found", "a"]


def test_a_test_without_a_case_fails() -> None:
    @each_case("text", [])
    def check(text: str) -> None:
        raise ValueError(text)

    with pytest.raises(AssertionError, match="there is no case"):
        check()


def test_the_end_of_a_tests_time_ends_it() -> None:
    @each_case("number", [1, 2])
    def check(number: int) -> None:
        pytest.fail(f"Timeout (>{number}s) from pytest-timeout.")

    with pytest.raises(pytest.fail.Exception, match=r"Timeout \(>1s\)"):
        check()


def test_fixtures_and_the_report_are_pytests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from tests.support.suite.cases import each_case

        @pytest.fixture
        def limit():
            return 2

        @each_case("number", [1, 2, 3, 4])
        def test_it(number, limit):
            assert number <= limit
        """
    )
    line_matcher = pytester.runpytest_inprocess("-p", "no:asyncio").stdout
    line_matcher.fnmatch_lines(["*assert 3 <= 2", "*failed: 3: *", "*failed: 4: *", "*1 failed*"])
