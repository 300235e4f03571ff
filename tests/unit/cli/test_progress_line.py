"""The line of a long step is drawn over on a terminal, and a line elsewhere."""

import pytest

from hermesops.base.progress import ProgressLine
from hermesops.cli import console
from tests.support.fakes.terminal import Terminal

HALF = ProgressLine("roles: 1 of 2 tasks: install", share=0.5)


def a_terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    for name, value in {"TERM": "xterm", "COLUMNS": "60", "NO_COLOR": "1"}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(console._mode, "is_drawn", False)
    return terminal


def test_it_is_gone_before_anything_else_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    console.say(HALF)
    console.say("changed")
    assert terminal.getvalue() == "\r\x1b[2K[##########----------] roles: 1 of 2 tasks: install\r\x1b[2Kchanged\n"


def test_it_is_as_wide_as_the_terminal_and_its_end_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = a_terminal(monkeypatch)
    console.say(ProgressLine(f"roles: {'x' * 100}\x1b[2J", share=1.0))
    console.say(ProgressLine("roles: 2 tasks in 3 s", has_ended=True))
    drawn, end = terminal.getvalue().split("\r\x1b[2K")[1:]
    assert len(drawn) == 59
    assert end == "roles: 2 tasks in 3 s\n"


def test_elsewhere_it_is_a_line(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    console.say(HALF)
    assert capsys.readouterr().err == f"{HALF}\n"
    dumb = Terminal()
    monkeypatch.setattr("sys.stderr", dumb)
    monkeypatch.setenv("TERM", "dumb")
    console.say(HALF)
    assert dumb.getvalue() == f"{HALF}\n"
