"""Each class of errors has an exit code of its own, and one failure of several keeps no other from being done."""

import re

import pytest

from hermesops import errors
from hermesops.errors import HermesError, Hint, RefusedError, UnavailableError, problem_of
from tests.support.suite.cases import each_case

CODES = {
    errors.UsageError: 2,
    errors.RefusedError: 3,
    errors.AlreadySoError: 3,
    errors.UnavailableError: 4,
    errors.UnknownOutcomeError: 5,
    errors.NotWrittenError: 4,
    errors.PartlyDoneError: 6,
    errors.HaltedError: 8,
    errors.BrokenInvariantError: 70,
}


@each_case(("kind", "code"), CODES.items())
def test_a_class_has_the_exit_code_that_scripts_know(kind: type[HermesError], code: int) -> None:
    assert kind("x").exit_code == code
    assert dict(re.findall(r"── (\w+Error) .* (\d+)$", str(errors.__doc__), re.MULTILINE))[kind.__name__] == str(code)


def test_every_class_is_in_that_list() -> None:
    classes = vars(errors).values()
    assert {each for each in classes if isinstance(each, type) and issubclass(each, Exception)} == {HermesError, *CODES}


async def _done() -> None: ...


async def _failed(error: Exception) -> None:
    raise error


async def test_the_problem_of_one_of_several_is_its_message() -> None:
    assert await problem_of(_done()) == ""
    assert await problem_of(_failed(RefusedError("held by ada", hint="wait"))) == "held by ada"


async def test_a_bug_is_no_problem_to_go_on_after() -> None:
    with pytest.raises(ZeroDivisionError):
        await problem_of(_failed(ZeroDivisionError()))


def test_a_message_is_what_a_log_shows() -> None:
    error = UnavailableError("no answer", hint="repeat it")
    assert (str(error), error.message, str(error.hint)) == ("no answer", "no answer", "repeat it")


def test_a_hint_has_no_blank_within_brackets() -> None:
    hint = Hint(
        ("instance", "restart", "ada"), "if it has one (", ("release", "show", "R"), "); else", ("release", "list")
    )
    assert (
        str(hint)
        == "hermesops instance restart ada if it has one (hermesops release show R); else hermesops release list"
    )
