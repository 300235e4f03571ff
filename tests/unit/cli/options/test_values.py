"""Moments are read as operators type them."""

from datetime import UTC, datetime

import pytest

from hermesops.cli.options.values import since, until
from hermesops.errors import UsageError
from tests.support.suite.cases import each_case

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)


@each_case(
    ("text", "means"),
    [
        ("90m", datetime(2026, 11, 22, 10, 30, tzinfo=UTC)),
        ("7d", datetime(2026, 11, 15, 12, tzinfo=UTC)),
        ("2026-11-20", datetime(2026, 11, 20, tzinfo=UTC)),
        ("2026-11-20T04:30", datetime(2026, 11, 20, 4, 30, tzinfo=UTC)),
        ("2026-11-20T04:30+02:00", datetime(2026, 11, 20, 2, 30, tzinfo=UTC)),
    ],
)
def test_ages_and_dates_are_moments(text: str, means: datetime) -> None:
    assert since(text, now=NOW) == means


@each_case("text", ["yesterday", "", "7", "d", "-3h", "2026-13-01", "9999999h"])
def test_anything_else_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        since(text, now=NOW)


def test_an_age_before_all_time_is_named() -> None:
    with pytest.raises(UsageError, match="is not a time"):
        since("999999w", now=NOW)


def test_a_span_may_be_of_what_is_to_come() -> None:
    assert until("12h", now=NOW) == datetime(2026, 11, 23, tzinfo=UTC)
    assert until("2026-12-24", now=NOW) == datetime(2026, 12, 24, tzinfo=UTC)
