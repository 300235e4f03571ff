"""What is pushed is Prometheus's text format, and what ended is nought for a while."""

import math

from hermesops.automation.monitor.metrics.exposition import ENDED_S, Exposition, series


def test_names_labels_and_values_are_written_out() -> None:
    values = {
        series("up"): 1.0,
        series("age", who='a"b\\c\nd', what="x"): 1.5,
        series("none"): math.nan,
        series("most"): math.inf,
        series("large"): 1_800_000_000.125,
    }
    assert Exposition(["busy"]).text(values, now_s=0).splitlines() == [
        "up 1",
        'age{who="a\\"b\\\\c\\nd",what="x"} 1.5',
        "large 1800000000.125",
    ]


def test_a_figure_that_is_not_known_any_more_is_pushed_no_more() -> None:
    exposition = Exposition(["busy"])
    exposition.text({series("age"): 1.0}, now_s=0)
    assert exposition.text({}, now_s=10) == ""


def test_what_has_ended_is_nought_until_nobody_sees_it_any_more() -> None:
    exposition, values = Exposition(["busy"]), {series("busy", who="ada"): 1.0}
    assert exposition.text(values, now_s=0) == 'busy{who="ada"} 1\n'
    assert exposition.text({}, now_s=10) == 'busy{who="ada"} 0\n'
    assert exposition.text({}, now_s=10 + ENDED_S - 1) == 'busy{who="ada"} 0\n'
    assert exposition.text({}, now_s=10 + ENDED_S) == ""
    assert exposition.text(values, now_s=400) == 'busy{who="ada"} 1\n'
    exposition.text({}, now_s=410)
    assert exposition.text(values, now_s=420) == 'busy{who="ada"} 1\n'
