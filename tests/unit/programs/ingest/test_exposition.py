"""Text exposition as services push it."""

import pytest

from hermesops.programs.ingest.exposition import series_of
from hermesops.programs.ingest.remote_write import MalformedError, labels_in, value_in
from tests.support.suite.cases import each_case

NOW = 1_800_000_000_000


def read(text: str) -> list[tuple[dict[str, str], int, float]]:
    return [
        ({name.decode(): given.decode() for name, given in labels_in(series.labels)}, at, value_in(sample))
        for series in series_of(text, NOW)
        for at, sample in series.samples
    ]


def test_lines_are_samples_of_now_or_of_their_own_time() -> None:
    text = """# HELP hermesops_cell_expected how many
# TYPE hermesops_cell_expected gauge

hermesops_cell_expected{cell="a",why="say \\"no\\\\n\\"\\n"} 3
hermesops_monitor_leader 1 1700000000000
hermesops_x{} +Inf
"""
    assert read(text) == [
        ({"__name__": "hermesops_cell_expected", "cell": "a", "why": 'say "no\\n"\n'}, NOW, 3.0),
        ({"__name__": "hermesops_monitor_leader"}, 1_700_000_000_000, 1.0),
        ({"__name__": "hermesops_x"}, NOW, float("inf")),
    ]


@each_case(
    "line", ["x", "x{a} 1", 'x{a="b} 1', "x y", "1x 1", 'x{a="b"} 1 2 3', 'x{a="b" 1', "x{} 1 y", 'x{a="b" c="d"} 1']
)
def test_a_line_that_is_no_sample_is_named(line: str) -> None:
    with pytest.raises(MalformedError, match="line 2 is no sample"):
        read(f"good 1\n{line}\n")
