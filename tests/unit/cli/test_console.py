"""What a person is shown is text: no part of it moves a cursor, hides a word or passes for another line."""

import json

import pytest

from hermesops.cli import console, context
from hermesops.errors import Hint, RefusedError
from tests.support.fakes.terminal import Terminal
from tests.support.hostile.agents.hostile_moods import ESCAPES


def test_nothing_that_a_terminal_obeys_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    console.say(ESCAPES)
    console.write(ESCAPES)
    console.result("x", {}, [ESCAPES])
    console.table("x", "rows", ["what"], [{"what": ESCAPES}, {"what": [ESCAPES]}], "none")
    console.error(RefusedError(ESCAPES, hint=ESCAPES))
    shown = capsys.readouterr()
    for text in (shown.out, shown.err):
        assert text.replace("\n", "").isprintable()
        assert "\\x1b]52;" in text
        assert "\\u202e" in text


def test_a_cell_of_a_table_stays_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    console.table("x", "rows", ["what"], [{"what": "a\nb\tc"}], "none")
    assert capsys.readouterr().out.splitlines() == ["WHAT", "a b c"]


def test_a_program_reads_what_there_is(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console._mode, "json", True)
    console.result("x", {"said": ESCAPES})
    out = capsys.readouterr().out
    assert out.isascii()
    assert json.loads(out)["said"] == ESCAPES


def test_output_of_a_remote_command_is_passed_through(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    console.write_bytes(b"\x1b[1m\xff")
    assert capfdbinary.readouterr().out == b"\x1b[1m\xff"


def test_commands_of_hints_name_the_environment_that_was_typed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(context._chosen, "environment", "staging")
    hint = Hint(("instance", "show", "ada"), ", then", ("worker",), "; hermesops looks first")
    named = "hermesops --env staging instance show ada, then hermesops --env staging worker; hermesops looks first"
    console.error(RefusedError("no", hint=hint))
    console.table("x", "rows", ["hint"], [{"hint": hint}], "none")
    shown = capsys.readouterr()
    assert (shown.err, shown.out.splitlines()[1]) == (f"error: no\nhint: {named}\n", named)
    assert console.advice(("env", "list")) == "hermesops env list", "it is about all environments"


def test_a_variable_chooses_the_environment_of_hints_where_the_option_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "staging")
    assert console.advice(("worker",)) == "hermesops --env staging worker"
    monkeypatch.setattr(context._chosen, "environment", "production")
    assert console.advice(("worker",)) == "hermesops --env production worker"


def test_hints_without_an_environment_are_as_they_are() -> None:
    assert console.advice(("worker",)) == "hermesops worker"


def test_a_program_reads_hints_as_people_do(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console._mode, "json", True)
    monkeypatch.setattr(context._chosen, "environment", "staging")
    hint = Hint(("instance", "show", "ada"), "says why")
    console.table("x", "rows", ["hint"], [{"hint": hint, "repair": [hint], "none": Hint()}], "none")
    text = "hermesops --env staging instance show ada says why"
    assert json.loads(capsys.readouterr().out)["rows"] == [{"hint": text, "repair": [text], "none": ""}]


def test_sentences_fit_a_terminal_and_stay_whole_in_a_pipe_and_for_a_program(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    sentence = "the machine of ada does not answer through the toolbox, and nothing was changed there"
    monkeypatch.setenv("COLUMNS", "50")
    monkeypatch.setenv("NO_COLOR", "1")
    console.say(sentence)
    console.result("x", {}, [sentence])
    piped = capsys.readouterr()
    assert (piped.out, piped.err) == (f"{sentence}\n", f"{sentence}\n")
    for write in (console.say, lambda line: console.result("x", {}, [line])):
        terminal = Terminal()
        monkeypatch.setattr("sys.stdout", terminal)
        monkeypatch.setattr("sys.stderr", terminal)
        write(sentence)
        first, second = terminal.getvalue().splitlines()
        assert (f"{first} {second.strip()}", second[:5]) == (sentence, f"    {second[4]}")
    terminal = Terminal()
    monkeypatch.setattr("sys.stdout", terminal)
    console.result("x", {}, [sentence], verbatim=True)
    monkeypatch.setattr(console._mode, "json", True)
    console.result("x", {"said": sentence})
    assert [line for line in terminal.getvalue().splitlines() if sentence in line] == [
        sentence,
        f'  "said": "{sentence}"',
    ]
