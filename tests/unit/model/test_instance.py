from datetime import UTC, datetime, time

from hermesops.model.fleet.instance import QuietHours
from tests.support.suite.cases import each_case


@each_case(
    ("hours", "at", "quiet"),
    [
        (QuietHours(time(22), time(7)), "23:30", True),
        (QuietHours(time(22), time(7)), "06:59", True),
        (QuietHours(time(22), time(7)), "22:00", True),
        (QuietHours(time(22), time(7)), "07:00", False),
        (QuietHours(time(22), time(7)), "12:00", False),
        (QuietHours(time(9), time(17)), "09:00", True),
        (QuietHours(time(9), time(17)), "17:00", False),
        (QuietHours(time(22), time(7), "Asia/Tokyo"), "13:30", True),
        (QuietHours(time(22), time(7), "Asia/Tokyo"), "22:30", False),
    ],
)
def test_hours_are_quiet_on_the_users_own_clock_and_past_midnight(hours: QuietHours, at: str, *, quiet: bool) -> None:
    assert hours.hold_at(datetime.combine(datetime(2026, 1, 2, tzinfo=UTC), time.fromisoformat(at), UTC)) is quiet
