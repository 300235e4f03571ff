"""Lines stay within their frame, and break where nothing is known."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from hermesops.console.plots import HEIGHT, WIDTH, plot_of

BEGIN = datetime(2026, 1, 1, tzinfo=UTC)
END = BEGIN + timedelta(hours=1)


def at(minutes: float) -> datetime:
    return BEGIN + timedelta(minutes=minutes)


def test_a_line_breaks_where_values_are_missing() -> None:
    plot = plot_of([(at(0), 1.0), (at(2), 3.0), (at(30), 2.0), (at(60), 2.0)], BEGIN, END, gap_s=240)
    assert [line.split()[0].split(",")[0] for line in plot.lines] == ["0.0", "120.0", "240.0"]
    assert plot.lines[0] == "0.0,26.0 8.0,2.0"
    assert (plot.lowest, plot.highest, plot.last) == (1.0, 3.0, 2.0)


def test_nothing_known_is_no_line_and_no_zero() -> None:
    for points in ([], [(at(-1), 1.0)], [(at(61), 1.0)]):
        plot = plot_of(points, BEGIN, END, gap_s=240)
        assert (plot.lines, plot.lowest, plot.highest, plot.last) == ((), None, None, None)
    assert plot_of([(BEGIN, 1.0)], BEGIN, BEGIN, gap_s=240).lines == ()


@given(st.lists(st.tuples(st.floats(0, 60), st.floats(-1e12, 1e12)), min_size=1))
def test_each_point_is_within_the_frame(pairs: list[tuple[float, float]]) -> None:
    plot = plot_of([(at(minutes), value) for minutes, value in sorted(pairs)], BEGIN, END, gap_s=240)
    places = [tuple(map(float, point.split(","))) for line in plot.lines for point in line.split()]
    assert all(0 <= x <= WIDTH + 1 and 0 <= y <= HEIGHT for x, y in places)
    assert all(len(line.split()) > 1 for line in plot.lines)
