"""Every command says its result as JSON and keeps quiet when it is asked to."""

from collections.abc import Iterator
from typing import Any

import pytest

from hermesops.cli.commands import SUMMARIES
from hermesops.cli.groups import lazy as lazy_groups
from hermesops.cli.printing.output import Format, ListFormat
from tests.support.suite.cases import each_case


def commands(loaded: dict[str, Any], words: str = "") -> Iterator[tuple[str, Any]]:
    for name, command in loaded.items():
        if hasattr(command, "commands"):
            yield from commands(command.commands, f"{words}{name} ")
        else:
            yield f"{words}{name}", command


FOUND = dict(commands({name: lazy_groups.load(name) for name in SUMMARIES}))


@each_case("words", sorted(FOUND))
def test_a_command_takes_json_and_quiet(words: str) -> None:
    options = {option for parameter in FOUND[words].params for option in parameter.opts}
    assert {"--json", "--quiet", "-q"} <= options


def test_a_list_takes_what_chooses_its_rows() -> None:
    lists = {
        words for words, command in FOUND.items() if any("--sort" in parameter.opts for parameter in command.params)
    }
    assert {words for words in FOUND if words.endswith(" list")} | {"doctor", "audit log", "instance verify"} <= lists
    of_help = {words for words, command in FOUND.items() if (command.help or "").startswith("List ")}
    assert of_help - lists == {"release check-upstream"}, "it prints sentences, and no rows to choose from"
    for words, command in FOUND.items():
        [form] = [parameter.type_descriptor.annotation for parameter in command.params if "-o" in parameter.opts]
        assert form is (ListFormat if words in lists else Format), words
        assert any("--filter" in parameter.opts for parameter in command.params) is (words in lists), words


def test_help_of_a_group_says_whole_summaries(capsys: pytest.CaptureFixture[str]) -> None:
    lazy_groups.load("fleet").main(["--help"], standalone_mode=False)
    shown = " ".join(capsys.readouterr().out.split())
    assert "Repair a difference: adopt or destroy a machine without an instance, or accept a machine's size." in shown
    assert "..." not in shown.partition("Commands:")[2]


def test_commands_are_found_at_all() -> None:
    assert "provision" in FOUND
    assert "local fault set" in FOUND
