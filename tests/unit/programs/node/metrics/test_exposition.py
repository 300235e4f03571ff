"""The text of the metrics: what node_exporter reads, and nothing that an agent could have written."""

import math
import re

import pytest

from hermesops.programs.node.metrics.exposition import Sample, render
from tests.support.suite.cases import each_case

_LINE = re.compile(r'[a-z_]+(\{[a-z]+="[A-Za-z0-9_.:+-]+"(,[a-z]+="[A-Za-z0-9_.:+-]+")*\})? -?[0-9.e+-]+')


def test_samples_of_a_metric_stand_together_below_its_help_and_type() -> None:
    text = render(
        [
            Sample("hermes_turns_total", 3, {"outcome": "answered"}),
            Sample("hermes_fenced", value=False),
            Sample("hermes_turns_total", 1.5, {"outcome": "failed"}),
        ]
    ).decode()
    lines = text.splitlines()
    assert lines[0].startswith("# HELP hermes_fenced ")
    assert lines[1:3] == ["# TYPE hermes_fenced gauge", "hermes_fenced 0"]
    assert lines[4:] == [
        "# TYPE hermes_turns_total counter",
        'hermes_turns_total{outcome="answered"} 3',
        'hermes_turns_total{outcome="failed"} 1.5',
    ]
    assert text.endswith("\n")
    assert all(_LINE.fullmatch(line) for line in lines if not line.startswith("#"))


def test_large_and_small_numbers_keep_their_digits() -> None:
    assert b"hermes_metrics_timestamp_seconds 1800000000.125\n" in render(
        [Sample("hermes_metrics_timestamp_seconds", 1_800_000_000.125)]
    )
    assert b'{database="state"} 9000000000\n' in render(
        [Sample("hermes_database_bytes", 9_000_000_000, {"database": "state"})]
    )


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="no number"):
        render([Sample("hermes_turn_seconds", value)])


@each_case("value", ['x"} 1\nhermes_fenced 0', "", "a b", "ä", "x" * 81, "\\"])
def test_a_label_that_could_break_out_is_refused(value: str) -> None:
    with pytest.raises(ValueError, match="malformed"):
        render([Sample("hermes_release_info", 1, {"release": value, "slot": "r1"})])


def test_one_series_twice_is_refused_as_node_exporter_would_drop_the_whole_file() -> None:
    with pytest.raises(ValueError, match="twice"):
        render([Sample("hermes_fenced", 1), Sample("hermes_fenced", 1)])


def test_a_name_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(KeyError):
        render([Sample("hermes_secret", 1)])
