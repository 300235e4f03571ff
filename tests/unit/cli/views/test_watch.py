"""What is shown again and again, with a terminal and without, until Ctrl-C."""

from collections.abc import Iterator, Sequence

import pytest

from hermesops.cli import console
from hermesops.cli.views import watch as views
from hermesops.errors import UnavailableError, UsageError
from tests.support.fakes.terminal import Terminal


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; after three somebody presses Ctrl-C."""
    made: list[float] = []

    def pause(seconds: float) -> None:
        made.append(seconds)
        if len(made) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(views, "pause_blocking", pause)
    return made


def counting() -> Iterator[list[str]]:
    number = 0
    while True:
        number += 1
        yield [f"round {number}\x1b[2J"]


def test_without_a_terminal_snapshots_follow_one_another(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    rounds = counting()
    views.watch(lambda: next(rounds), 7)
    said = capsys.readouterr().out
    assert [line for line in said.splitlines() if line.startswith("round")] == [
        f"round {number}\\x1b[2J" for number in (1, 2, 3)
    ]
    assert said.count("UTC, every 7 s; Ctrl-C ends this") == 3
    assert pauses == [7, 7, 7]


def test_a_terminal_is_drawn_over(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    rounds = counting()
    views.watch(lambda: [*next(rounds), "a" * 50, *["below"] * 50], 7)
    said = terminal.getvalue()
    assert "round 3\\x1b[2J" in said
    assert "\x1b[2J" not in said
    assert f"{'a' * 19}…" in said
    assert "below" not in said, "only rows that fit are drawn"
    assert "\x1b[1A" in said, "the cursor goes up to draw over what is there"
    assert said.endswith("\x1b[?25h"), "and is visible again"
    assert len(pauses) == 3


def test_what_fails_once_is_said_above_what_was_read_before(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Iterator[Sequence[str] | None] = iter([["as it was"], None, None])

    def lines() -> Sequence[str]:
        found = next(answers)
        if found is None:
            raise UnavailableError("no answer")
        return found

    views.watch(lines, 7)
    said = capsys.readouterr().out
    assert said.count("not read again, below is what was read before: no answer\nas it was\n\n") == 2
    assert len(pauses) == 3


def test_what_fails_at_once_is_an_error() -> None:
    def lines() -> Sequence[str]:
        raise UnavailableError("no answer")

    with pytest.raises(UnavailableError, match="no answer"):
        views.watch(lines, 7)


def test_it_is_for_people_and_at_most_every_second(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(UsageError, match="--every"):
        views.watch(list, 0.5)
    monkeypatch.setattr(console._mode, "json", True)
    with pytest.raises(UsageError, match="for people"):
        views.watch(list, 7)


def test_a_terminal_that_cannot_be_drawn_on_gets_plain_lines(
    pauses: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "dumb")
    views.watch(lambda: ["plain"], 7)
    assert terminal.getvalue().count("\nplain\n") == 3
    assert "\x1b" not in terminal.getvalue()
    assert len(pauses) == 3
