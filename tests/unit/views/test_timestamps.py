"""Stretches of time in words."""

from hermesops.views.timestamps import span
from tests.support.suite.cases import each_case


@each_case(
    ("seconds", "words"),
    [(0, "0 s"), (59, "59 s"), (61, "1 min 1 s"), (3600, "1 h 0 min"), (90000, "1 d 1 h"), (-1, "-")],
)
def test_a_stretch_of_time(seconds: float, words: str) -> None:
    assert span(seconds) == words
