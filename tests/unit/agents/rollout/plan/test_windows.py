"""When changes are allowed: windows in their own time zone, freezes, quiet hours."""

from datetime import UTC, datetime, time, timedelta

import pytest

from hermesops.agents.rollout.plan.windows import closed_at, parse_window, quiet_until
from hermesops.errors import UsageError
from hermesops.model.fleet.instance import QuietHours
from hermesops.model.rollout.records import Freeze
from tests.support.suite.cases import each_case

MONDAY = datetime(2026, 1, 5, 12, tzinfo=UTC)


@each_case(
    ("window", "timestamp", "is_open"),
    [
        ("Mon-Fri 09:00-17:00 UTC", MONDAY, True),
        ("Mon-Fri 09:00-12:00 UTC", MONDAY, False),
        ("Mon-Fri 09:00-12:00 America/New_York", MONDAY + timedelta(hours=3), True),
        ("Tue 09:00-17:00", MONDAY, False),
        ("Sun 22:00-13:00 UTC", MONDAY, True),
        ("Sat-Mon 11:00-13:00 UTC", MONDAY, True),
        ("Mon 22:00-02:00 Europe/Berlin", MONDAY + timedelta(hours=12), True),
        ("Mon 22:00-02:00 Europe/Berlin", MONDAY + timedelta(hours=14), False),
    ],
)
def test_a_window_is_open_on_the_clock_of_its_zone(window: str, timestamp: datetime, *, is_open: bool) -> None:
    assert (closed_at(timestamp, [window], []) is None) == is_open


def test_a_closed_window_says_when_the_next_opens() -> None:
    closed = closed_at(MONDAY, ["Mon 08:00-09:00 UTC", "Wed 10:00-11:00 Europe/Berlin"], [])
    assert closed
    assert closed.until == datetime(2026, 1, 7, 9, tzinfo=UTC)


def test_a_window_keeps_its_hour_when_clocks_change() -> None:
    before, after = datetime(2026, 3, 28, 9, 30, tzinfo=UTC), datetime(2026, 3, 30, 8, 30, tzinfo=UTC)
    assert closed_at(before, ["Mon-Sun 10:00-11:00 Europe/Berlin"], []) is None
    assert closed_at(after, ["Mon-Sun 10:00-11:00 Europe/Berlin"], []) is None
    assert closed_at(after - timedelta(hours=1), ["Mon-Sun 10:00-11:00 Europe/Berlin"], [])


@each_case("text", ["", "Mon", "Funday 09:00-10:00", "Mon 9-10", "Mon 09:00-25:00", "Mon 09:00-10:00 X/Y"])
def test_what_is_no_window_is_said(text: str) -> None:
    with pytest.raises(UsageError, match="is no maintenance window"):
        parse_window(text)


def test_a_freeze_closes_whatever_windows_say() -> None:
    freeze = Freeze("f1", MONDAY - timedelta(hours=1), MONDAY + timedelta(hours=1), "incident", "ada")
    closed = closed_at(MONDAY, ["Mon 09:00-17:00 UTC"], [freeze])
    assert closed
    assert (closed.until, closed.why) == (freeze.ends_at, "frozen by ada until 2026-01-05 13:00 UTC: incident")
    assert closed_at(MONDAY + timedelta(hours=2), [], [freeze]) is None


def test_quiet_hours_end_on_the_users_clock() -> None:
    quiet = QuietHours(time(22), time(7), "Europe/Berlin")
    assert quiet_until(datetime(2026, 1, 5, 23, tzinfo=UTC), quiet) == datetime(2026, 1, 6, 6, tzinfo=UTC)
    assert quiet_until(datetime(2026, 1, 6, 1, tzinfo=UTC), quiet) == datetime(2026, 1, 6, 6, tzinfo=UTC)
