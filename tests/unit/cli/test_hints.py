"""A hint that names a command names one that exists."""

import re
from pathlib import Path

import pytest

from hermesops.cli import lazy_groups
from hermesops.cli.commands import SUMMARIES
from hermesops.model.unknown_name import LISTED_BY

PACKAGE = Path(__file__).resolve().parents[3] / "hermesops"
PROSE = {"again", "anew", "completely", "that"}
"""Words that follow the program's name where it is spoken of, not typed."""

MENTION = re.compile(r"hermesops (?:--env \S+ )?([a-z][a-z-]+)(?: ([a-z][a-z-]+))?")


def mentions() -> list[tuple[str, str, str]]:
    found = []
    for path in sorted(PACKAGE.rglob("*.py")):
        for match in re.finditer(r"hint=f?\"([^\"]*)\"|hint=f?'([^']*)'", path.read_text()):
            hint = match[1] or match[2] or ""
            found += [
                (str(path.relative_to(PACKAGE)), noun, verb or "")
                for noun, verb in MENTION.findall(hint)
                if noun not in PROSE
            ]
    return found


@pytest.mark.parametrize(("path", "noun", "verb"), sorted(set(mentions())))
def test_the_command_of_a_hint_exists(path: str, noun: str, verb: str) -> None:
    assert noun in SUMMARIES, f"{path} tells people to type hermesops {noun}"
    group = getattr(lazy_groups.load(noun), "commands", None)
    if group is not None and verb:
        assert verb in group, f"{path} tells people to type hermesops {noun} {verb}"


@pytest.mark.parametrize(("named", "command"), LISTED_BY.items())
def test_the_command_that_lists_the_things_of_a_noun_exists(named: str, command: str) -> None:
    words = [word for word in command.split() if not word.startswith(("-", "{"))]
    group = lazy_groups.load(words[0])
    for word in words[1:]:
        assert word in group.commands, f"{named}: hermesops {command}"
        group = group.commands[word]
    options = {option for parameter in group.params for option in parameter.opts}
    assert {word for word in command.split() if word.startswith("--")} <= options


def test_hints_are_found_at_all() -> None:
    assert len(mentions()) > 20
