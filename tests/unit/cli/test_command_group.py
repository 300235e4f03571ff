"""Every command says its result as JSON and keeps quiet when it is asked to."""

from collections.abc import Iterator
from typing import Any

from hermesops.cli import lazy_groups
from hermesops.cli.commands import SUMMARIES
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


def test_commands_are_found_at_all() -> None:
    assert "provision" in FOUND
    assert "local fault set" in FOUND
