"""PromQL of figures, and how they are written."""

from hermesops.observability.telemetry.metrics.figures import EXPRESSIONS, TOP, Figure, now, sparkline, text, trend
from tests.support.suite.cases import each_case


def test_every_figure_has_an_expression_for_one_for_some_and_for_all() -> None:
    assert set(EXPRESSIONS) == set(Figure)
    assert now(Figure.MEMORY) == "max by (instance_id) (hermes_gateway_memory_bytes{})"
    assert now(Figure.MEMORY, ["b.2", "a"]) == (
        'max by (instance_id) (hermes_gateway_memory_bytes{instance_id=~"a|b\\\\.2"})'
    )
    assert trend(Figure.UP, "a") == 'min by (instance_id) (hermes_agent_up{instance_id=~"a"})'
    assert 'state="used",instance_id=~"a"' in now(Figure.DISK, ["a"])


@each_case(
    ("figure", "value", "words"),
    [
        (Figure.MEMORY, 123_400_000, "123 MB"),
        (Figure.RESTARTS, 1.98, "2"),
        (Figure.ERRORS, 0, "0"),
        (Figure.TURN, 1.25, "1.2 s"),
        (Figure.DISK, 0.934, "93 %"),
        (Figure.UP, 1, "up"),
        (Figure.UP, 0, "down"),
        *((figure, None, "-") for figure in TOP),
    ],
)
def test_a_figure_in_words(figure: Figure, value: float | None, words: str) -> None:
    assert text(figure, value) == words


@each_case(
    ("values", "lowest", "signs"),
    [
        ([], 0.0, ""),
        ([0, 1, 2, 3, 4, 5, 6, 7], 0.0, "▁▂▃▄▅▆▇█"),
        ([7, None, 0], 0.0, "█·▁"),
        ([None, None], 0.0, "··"),
        ([0, 0], 0.0, "▁▁"),
        ([5, 5], 0.0, "██"),
        ([100, 107], None, "▁█"),
        ([5, 5], None, "▁▁"),
        ([-7, 0], 0.0, "▁█"),
    ],
)
def test_a_sparkline(values: list[float | None], lowest: float | None, signs: str) -> None:
    assert sparkline(values, lowest=lowest) == signs
