"""Schedules that hermes-agent takes, and those that it refuses."""

from hermesops.wire.settings import is_schedule
from tests.support.suite.cases import each_case


@each_case(
    "text", ["0 9 * * *", "*/5 1,2 1-5/2 12 0-7", "30m", "every 2h", "Every 1 day", "2026-02-03T14:00", "2026-02-03"]
)
def test_a_schedule(text: str) -> None:
    assert is_schedule(text)


@each_case(
    "text",
    ["", "hello", "every", "every day", "2026", "30", "* * * *", "* * * * * *", "0 9 * * MON", ", * * * *"],
)
def test_no_schedule(text: str) -> None:
    assert not is_schedule(text)


@each_case("text", ["60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *", "* * * * 8", "5-1 * * * *", "*/0 * * * *"])
def test_a_field_out_of_its_range(text: str) -> None:
    assert not is_schedule(text)
