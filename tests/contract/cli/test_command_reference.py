"""The command reference says what the commands' help says."""

from pathlib import Path

import pytest

from hermesops.cli.commands import SUMMARIES
from tests.support.documents import command_reference


def test_the_pages_are_what_the_help_says() -> None:
    wrong = command_reference.differences(command_reference.folder())
    assert not wrong, "\n".join(["run: make reference", *wrong])


def test_each_command_of_the_first_level_has_a_page() -> None:
    assert set(command_reference.pages()) == {
        command_reference.INDEX,
        *(f"{name}.md" for name in SUMMARIES),
    }


def test_pages_are_the_same_on_every_terminal_and_computer(monkeypatch: pytest.MonkeyPatch) -> None:
    before = command_reference.pages()
    monkeypatch.setenv("COLUMNS", "40")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert command_reference.pages() == before
    for name, text in before.items():
        assert "\x1b" not in text, name
        assert str(Path.home()) not in text, name
        assert str(Path.cwd()) not in text, name


def test_a_page_that_is_old_missing_or_of_no_command_is_named(tmp_path: Path) -> None:
    command_reference.write(tmp_path)
    assert command_reference.differences(tmp_path) == []
    (tmp_path / "worker.md").write_text("old")
    (tmp_path / "audit.md").unlink()
    (tmp_path / "errand.md").write_text("gone")
    assert command_reference.differences(tmp_path) == [
        "audit.md is missing",
        "worker.md is not what --help says",
        "errand.md is of no command",
    ]
    command_reference.write(tmp_path)
    assert command_reference.differences(tmp_path) == []
