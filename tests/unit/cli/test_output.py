"""How a result is printed follows the options, and whether a terminal shows it."""

import json
import sys

import pytest

from hermesops.cli import console
from hermesops.cli.printing import palette
from hermesops.cli.printing.output import Mode
from tests.support.fakes.terminal import Terminal

ROWS = [{"user": name, "status": "running", "machine": "m" * 90, "at": "2026-11-28T17:34:49+00:00"} for name in "ab"]


def shown(monkeypatch: pytest.MonkeyPatch, mode: Mode, **variables: str) -> str:
    """What a terminal of 80 columns shows of a list."""
    for name, value in {"TERM": "xterm", "NO_COLOR": "", "COLUMNS": "80", **variables}.items():
        monkeypatch.setenv(name, value)
    screen = Terminal()
    monkeypatch.setattr(console, "_mode", mode)
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    console.table("x", "users", ("user", "status", "machine"), ROWS, "nobody")
    return screen.getvalue()


def test_styles_are_for_terminals_that_show_them(monkeypatch: pytest.MonkeyPatch) -> None:
    styled = shown(monkeypatch, Mode())
    assert palette.painted("a     running  ") in styled
    plain = shown(monkeypatch, Mode(), NO_COLOR="1")
    assert "\x1b" not in plain
    for mode, variables in ((Mode(), {"TERM": "dumb"}), (Mode(quiet=True), {})):
        assert shown(monkeypatch, mode, **variables) == plain
    assert "\x1b" not in shown(monkeypatch, Mode(json=True))


def test_a_terminal_gets_what_fits_and_a_pipe_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert max(map(len, shown(monkeypatch, Mode(), NO_COLOR="1").splitlines())) == 80
    wide = shown(monkeypatch, Mode(wide=True), NO_COLOR="1").splitlines()
    assert wide[0].split() == ["USER", "STATUS", "MACHINE", "AT"]
    assert wide[1].split() == [*list(ROWS[0].values())[:3], "2026-11-28", "17:34:49Z"]
    monkeypatch.undo()
    console.table("x", "users", ("user", "status", "machine"), ROWS, "nobody")
    assert capsys.readouterr().out.splitlines()[1].split() == list(ROWS[0].values())[:3]


def test_the_same_rows_are_chosen_for_people_and_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    order, filters = "-user", ["status!=failed", "user=*"]
    as_json = shown(monkeypatch, Mode(json=True, order=order, filters=filters))
    assert [row["user"] for row in json.loads(as_json)["users"]] == ["b", "a"]
    assert shown(monkeypatch, Mode(only_names=True, order=order, filters=filters)) == "b\na\n"
    lines = shown(monkeypatch, Mode(order=order, filters=filters), NO_COLOR="1").splitlines()
    assert [line[0] for line in lines] == ["U", "b", "a"]


def test_a_time_is_iso_8601_for_programs_and_has_a_blank_for_people(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    columns = ("user", "at")
    console.table("x", "users", columns, ROWS, "nobody")
    assert capsys.readouterr().out.splitlines()[1] == "a     2026-11-28 17:34:49Z"
    monkeypatch.setattr(console, "_mode", Mode(json=True))
    console.table("x", "users", columns, ROWS, "nobody")
    assert json.loads(capsys.readouterr().out)["users"][0]["at"] == "2026-11-28T17:34:49+00:00"


def test_a_row_without_its_first_value_is_named_by_the_next_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROWS", [{**ROWS[0], "user": None}])
    assert shown(monkeypatch, Mode(only_names=True)) == "running\n"


def test_no_row_that_was_asked_for_is_no_empty_list(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(monkeypatch, Mode(filters=["user=c"])) == "none of 2 rows passes the filter\n"
    assert shown(monkeypatch, Mode(filters=["user=c"], only_names=True)) == ""
    monkeypatch.setattr(sys.modules[__name__], "ROWS", ROWS[:1])
    assert shown(monkeypatch, Mode(filters=["user=c"])) == "none of 1 row passes the filter\n"


def test_what_had_no_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.modules[__name__], "ROWS", [{**ROWS[0], "user": "u" * 60}])
    *_, last, end = shown(monkeypatch, Mode(is_list=True), COLUMNS="50").splitlines()
    assert f"{last} {end.strip()}" == "the terminal has no room for machine; -o wide shows all columns"
