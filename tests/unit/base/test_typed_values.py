"""Moments are read as operators type them."""

import re
import time
from datetime import UTC, datetime

import pytest

from hermesops.base.typed_values import seconds, since, until
from hermesops.errors import UsageError
from tests.support.documents import command_reference
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


def test_a_time_with_an_offset_is_shown_as_the_same_moment_in_utc() -> None:
    for text, shown in (
        ("2026-12-24T18:00+05:45", "2026-12-24 12:15"),
        ("2026-12-24T18:00-08:00", "2026-12-25 02:00"),
        ("2026-12-24T18:00Z", "2026-12-24 18:00"),
        ("2026-12-24T18:00", "2026-12-24 18:00"),
        ("90m", "2026-11-22 13:30"),
    ):
        assert f"{until(text, now=NOW):%Y-%m-%d %H:%M}" == shown, text


def test_a_time_without_an_offset_is_utc_whatever_the_time_zone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TZ", "Asia/Kathmandu")
    time.tzset()
    try:
        assert since("2026-11-20T18:00", now=NOW) == datetime(2026, 11, 20, 18, tzinfo=UTC)
    finally:
        monkeypatch.undo()
        time.tzset()


def test_a_span_has_a_longest() -> None:
    assert seconds("36500d", "--for") == 36_500 * 86_400
    for text in ("36501d", "999999w", "9" * 400):
        with pytest.raises(UsageError, match=r"--for .*no span of time"):
            seconds(text, "--for")


def test_help_of_a_time_says_in_which_zone_it_is() -> None:
    pages = [line for page in command_reference.pages().values() for line in page.splitlines()]
    times = [line for line in pages if re.search(r"^\| `--.*(ISO 8601|a date|a moment)", line)]
    assert len(times) >= 8
    assert [line for line in times if "UTC" not in line and "00Z" not in line] == []


@each_case("text", ["yesterday", "", "7", "d", "-3h", "2026-13-01", "9999999h", "0001-01-01T00:00+01:00"])
def test_anything_else_is_named(text: str) -> None:
    with pytest.raises(UsageError, match="is not a time"):
        since(text, now=NOW)


def test_an_age_before_all_time_is_named() -> None:
    with pytest.raises(UsageError, match="is not a time"):
        since("999999w", now=NOW)


def test_a_span_may_be_of_what_is_to_come() -> None:
    assert until("12h", now=NOW) == datetime(2026, 11, 23, tzinfo=UTC)
    assert until("2026-12-24", now=NOW) == datetime(2026, 12, 24, tzinfo=UTC)
