"""What destroys goes on only with consent; in production its name has to be typed."""

import io
from pathlib import Path

import pytest

from hermesops.cli import console, context
from hermesops.errors import RefusedError, UsageError
from tests.support.fakes.terminal import Terminal, begin_anew


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begin_anew(monkeypatch, tmp_path)


def asked(*, yes: bool = False) -> None:
    """Ask for consent with somebody at the terminal."""
    console.agree("This ends ada.", expect="ada", spared="ada lives on", yes=yes)


def types(monkeypatch: pytest.MonkeyPatch, *lines: str) -> None:
    monkeypatch.setattr("sys.stdin", Terminal("".join(f"{line}\n" for line in lines)))


def test_the_very_word_is_consent(monkeypatch: pytest.MonkeyPatch) -> None:
    types(monkeypatch, "ada")
    asked()


@pytest.mark.parametrize("typed", ["", "yes", "Ada", "ad"])
def test_another_word_is_none(monkeypatch: pytest.MonkeyPatch, typed: str) -> None:
    types(monkeypatch, typed)
    with pytest.raises(RefusedError, match="ada lives on"):
        asked()


def test_what_is_done_is_told_where_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    with pytest.raises(RefusedError, match="not confirmed: ada lives on"):
        asked()
    assert capsys.readouterr().err == "This ends ada.\n"
    asked(yes=True)
    assert capsys.readouterr().err == "This ends ada.\n"
    types(monkeypatch, "ada")
    asked()
    assert capsys.readouterr().err.count("This ends ada.") == 1


def test_yes_is_enough_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "staging")
    asked(yes=True)


def test_yes_alone_is_not_enough_in_production(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "production")
    monkeypatch.setattr("sys.stdin", io.StringIO("production\n"))
    with pytest.raises(RefusedError, match="HERMESOPS_ENV chose it: ada lives on") as refused:
        asked(yes=True)
    assert "--env production" in str(refused.value.hint)


def test_yes_beside_the_typed_name_is() -> None:
    context.select("production", verbose=False, report=print)
    asked(yes=True)


def test_production_is_typed_on_a_terminal_unless_the_command_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "production")
    types(monkeypatch, "ada", "production")
    asked()
    types(monkeypatch, "ada", "staging")
    with pytest.raises(RefusedError, match="ada lives on"):
        asked()
    context.select("production", verbose=False, report=print)
    types(monkeypatch, "ada")
    asked()


def test_without_a_terminal_nobody_agreed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("ada\n"))
    with pytest.raises(RefusedError, match="ada lives on"):
        asked()


def test_naming_what_is_destroyed_needs_productions_name_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HERMESOPS_ENV", "staging")
    console.require_typed_environment(spared="all lives on")
    monkeypatch.setenv("HERMESOPS_ENV", "production")
    types(monkeypatch, "staging")
    with pytest.raises(RefusedError, match="all lives on"):
        console.require_typed_environment(spared="all lives on")
    types(monkeypatch, "production")
    console.require_typed_environment(spared="all lives on")
    context.select("production", verbose=False, report=print)
    types(monkeypatch)
    console.require_typed_environment(spared="all lives on")


def test_a_command_that_needs_a_reason_names_itself_with_one() -> None:
    console.require_reason("leaked", "relay", "revoke", "web")
    with pytest.raises(UsageError, match="say why") as refused:
        console.require_reason("", "relay", "revoke", "web")
    assert str(refused.value.hint) == "hermesops relay revoke web --reason WHY"
