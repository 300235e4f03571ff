"""What is kept and what goes."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermesops.agents.backup.retention.rules import Keep, going

NOW = datetime(2026, 6, 15, 12, tzinfo=UTC)
KEEP = Keep(daily=7, weekly=4, monthly=3)


def days(count: int) -> dict[str, datetime]:
    return {f"{day:03}": NOW - timedelta(days=day) for day in range(count)}


def test_a_year_of_days_leaves_days_weeks_and_months() -> None:
    gone = set(going(days(365), KEEP, NOW))
    left = sorted(set(days(365)) - gone)
    assert left == ["000", "001", "002", "003", "004", "005", "006", "008", "015", "046"]


def test_who_runs_it_twice_takes_nothing_more() -> None:
    times = days(100)
    left = {id_: at for id_, at in times.items() if id_ not in going(times, KEEP, NOW)}
    assert going(left, KEEP, NOW) == []


def test_what_is_spared_stays() -> None:
    assert "099" not in going(days(100), KEEP, NOW, spared=["099"])


@given(
    st.lists(st.integers(min_value=0, max_value=10**6), min_size=1, max_size=60),
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5)),
)
def test_the_newest_and_those_of_today_never_go(minutes: list[int], counts: tuple[int, int, int]) -> None:
    times = {str(number): NOW - timedelta(minutes=ago) for number, ago in enumerate(minutes)}
    gone = going(times, Keep(*counts), NOW)
    assert max(times.values()) in {at for id_, at in times.items() if id_ not in gone}
    assert all(NOW - times[id_] >= timedelta(days=1) for id_ in gone)
    assert [times[id_] for id_ in gone] == sorted(times[id_] for id_ in gone)
