"""A test that expects an error of ours says which: by ``match=``, or by what it reads from the error."""

from pathlib import Path

import pytest

from tests.support.suite.cases import each_case
from tests.support.suite.expected_errors import unread_errors

TESTS = Path(__file__).parents[2]

HEAD = """
import pytest
from hermesops import errors
from hermesops.base import waiting
from hermesops.errors import RefusedError as Refused, UsageError

def test_it(kind: type[Refused], other: type[ValueError]):
    with {}:
        act()
    assert {}
"""


def test_every_error_of_ours_is_expected_with_what_it_says() -> None:
    paths = [(path, unread_errors(path.read_text())) for path in sorted(TESTS.rglob("*.py"))]
    lines = [f"{path.relative_to(TESTS)}:{line}: {call}" for path, calls in paths for line, call in calls]
    assert not lines, "add match=, or read raised.value:\n" + "\n".join(lines)


@each_case(
    "expected",
    [
        "pytest.raises(UsageError)",
        "pytest.raises(Refused)",
        "pytest.raises(errors.UnavailableError)",
        "pytest.raises(waiting.WaitExpiredError)",
        "pytest.raises((ValueError, Refused))",
        "pytest.raises(kind)",
    ],
)
def test_an_error_of_ours_alone_is_found(expected: str) -> None:
    assert unread_errors(HEAD.format(expected, "True")) == [(8, expected)]
    assert unread_errors(HEAD.format(f"{expected} as raised", "True")) == [(8, expected)]
    assert unread_errors(HEAD.format(f"{expected} as raised", "others.value.message")) == [(8, expected)]
    assert unread_errors(HEAD.format(f"{expected} as raised", "raised.value.hint")) == []
    assert unread_errors(HEAD.format(f"{expected.removesuffix(')')}, match='no')", "True")) == []


@pytest.mark.parametrize("expected", ["pytest.raises(ValueError)", "pytest.raises(other)", "pytest.raises(Unknown)"])
def test_other_peoples_errors_are_left_to_ruff(expected: str) -> None:
    assert unread_errors(HEAD.format(expected, "True")) == []
