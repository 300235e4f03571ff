"""What is shown again and again, with a terminal and without, until Ctrl-C."""

from collections.abc import Iterator, Sequence

import pytest

from hermesops.cli import console
from hermesops.cli.printing import watch as views
from hermesops.cli.printing.rows import Row
from hermesops.errors import UnavailableError, UsageError
from hermesops.views.timestamps import Age
from tests.support.fakes.terminal import Terminal


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The pauses that were made; after three somebody presses Ctrl-C."""
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 3:
            raise KeyboardInterrupt

    monkeypatch.setattr(views, "pause_blocking", pause)
    return pauses


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
    output = capsys.readouterr().out
    assert [line for line in output.splitlines() if line.startswith("round")] == [
        f"round {number}\\x1b[2J" for number in (1, 2, 3)
    ]
    assert output.count("UTC, every 7 s; Ctrl-C ends this") == 3
    assert pauses == [7, 7, 7]


def test_a_terminal_is_drawn_over(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "20")
    monkeypatch.setenv("LINES", "5")
    rounds = counting()
    views.watch(lambda: [*next(rounds), "a" * 50, *["below"] * 50], 7)
    output = terminal.getvalue()
    assert "round 3\\x1b[2J" in output
    assert "\x1b[2J" not in output
    assert f"{'a' * 19}…" in output
    assert "below" not in output, "only rows that fit are drawn"
    assert "\x1b[1A" in output, "the cursor goes up to draw over what is there"
    assert output.endswith("\x1b[?25h"), "and is visible again"
    assert len(pauses) == 3


def test_what_fails_once_is_said_above_what_was_read_before(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Iterator[Sequence[str] | None] = iter([["as it was"], None, None])

    def lines() -> Sequence[str]:
        answer = next(answers)
        if answer is None:
            raise UnavailableError("no answer")
        return answer

    views.watch(lines, 7)
    output = capsys.readouterr().out
    assert output.count("read failed, the state from before is below: no answer\nas it was\n\n") == 2
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


COLUMNS = ("user", "health", "age")


def listed(*rows: tuple[str, str | None, int]) -> list[Row]:
    return [{"user": user, "health": health, "age": Age(age), "id": user * 2} for user, health, age in rows]


def test_only_what_changed_is_a_change() -> None:
    before = listed(("ada", "healthy", 1), ("ben", None, 1), ("cleo", "down", 1))
    now = listed(("dora", "unknown", 0), ("ada", "healthy", 6), ("ben", "down", 6))
    assert views.differences("user", COLUMNS, before, now) == [
        "cleo: removed",
        "dora: added, health unknown, age 0 s",
        "ben: health - -> down",
    ]
    assert views.differences("user", COLUMNS, now, now) == []


def test_a_pipe_gets_the_list_once_and_then_its_changes(
    pauses: list[float], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console._mode, "filters", ["user!=cleo"])
    rounds = iter(
        [
            listed(("ada", "healthy", 1), ("cleo", "down", 1)),
            listed(("ada", "healthy", 2), ("cleo", "healthy", 2)),
            listed(("ada", "do\nwn", 3), ("cleo", "down", 3)),
        ]
    )
    views.watch_list("instances", COLUMNS, lambda: next(rounds), "none", every_s=7)
    *table, change = capsys.readouterr().out.splitlines()
    assert table == ["USER  HEALTH   AGE", "ada   healthy  1 s"]
    assert change.endswith("Z  ada: health healthy -> do wn")
    assert pauses == [7, 7, 7]


def test_an_outage_is_said_once_and_changes_are_against_what_was_read_last(
    pauses: list[float], capsys: pytest.CaptureFixture[str]
) -> None:
    answers: Iterator[list[Row] | None] = iter([listed(("ada", "healthy", 1)), None, None])

    def rows() -> list[Row]:
        answer = next(answers)
        if answer is None:
            raise UnavailableError("no answer")
        return answer

    views.watch_list("instances", COLUMNS, rows, "none", every_s=7)
    printed = capsys.readouterr()
    assert printed.err == "read failed: no answer\n"
    assert printed.out.count("\n") == 2
    assert len(pauses) == 3, "two rounds failed"


def test_a_terminal_gets_the_list_drawn_over(pauses: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(console._mode, "order", "-user")
    views.watch_list("instances", COLUMNS, lambda: listed(("ada", "healthy", 1), ("ben", "down", 1)), "none", every_s=7)
    drawn = terminal.getvalue()
    assert drawn.index("ben") < drawn.index("ada")
    assert len(pauses) == 3


def test_ctrl_c_while_the_first_list_is_read_ends_it_quietly(capsys: pytest.CaptureFixture[str]) -> None:
    def rows() -> list[Row]:
        raise KeyboardInterrupt

    views.watch_list("instances", COLUMNS, rows, "none")
    assert capsys.readouterr().out == ""
