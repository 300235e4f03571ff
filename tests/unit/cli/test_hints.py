"""Every command that hermesops tells people to type is one that its own command line takes."""

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from hermesops.cli import lazy_groups
from hermesops.cli.commands import SUMMARIES
from hermesops.model.unknown_name import LISTED_BY

PACKAGE = Path(__file__).resolve().parents[3] / "hermesops"

_TOLD = re.compile(r"\bhermesops (?:--env \S+ )?([a-z][a-z-]*(?: [^;:`(,>\n]*)?)")
_PROSE = re.compile(r"[a-z]{2,}")
"""What stands behind a command where a sentence goes on: values are written in capitals, or put in."""


@dataclass
class Typed:
    """A command as a text tells it.

    Attributes:
        given: Its parameters that are named.
        values: How many arguments stand there.
        goes_on: Whether ``…`` stands for what is left out.
        problem: What the command line would say.
    """

    command: Any
    given: set[str] = field(default_factory=set)
    values: int = 0
    goes_on: bool = False
    problem: str = ""


def texts(source: str) -> Iterator[tuple[int, str]]:
    """Every text of a module but docstrings; what is put into one is ``VALUE``."""
    tree = ast.parse(source)
    inner = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    bare = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(str(p.value) if isinstance(p, ast.Constant) else "VALUE" for p in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in inner | bare:
            yield node.lineno, node.value


def told() -> list[tuple[str, str]]:
    """Where each command is told, and its words."""
    return [
        (f"{path.relative_to(PACKAGE)}:{line}", match[1].strip())
        for path in sorted(PACKAGE.rglob("*.py"))
        for line, text in texts(path.read_text())
        for match in _TOLD.finditer(text)
        if match[1].split()[0] in SUMMARIES
    ]


def typed(words: list[str]) -> Typed | None:
    """What the command line makes of words; ``None`` where only a group of commands is named."""
    command = lazy_groups.load(words[0])
    rest = words[1:]
    while rest and rest[0] in getattr(command, "commands", {}):
        command = command.commands[rest.pop(0)]
    if hasattr(command, "commands"):
        is_sentence = (
            not rest or _PROSE.fullmatch(rest[0].rstrip(".")) or rest[0] in {"VALUE", "…", "--help"} or "|" in rest[0]
        )
        return None if is_sentence else Typed(command, problem=f"no command {rest[0]}")
    return _read(Typed(command), rest)


def _read(found: Typed, rest: list[str]) -> Typed:
    options = {name: one for one in found.command.params for name in (*one.opts, *one.secondary_opts)}
    words = iter(rest)
    for word in words:
        name = word.split("=")[0].rstrip(".")
        if name.startswith("--"):
            if name == "--help":
                found.goes_on = True
                break
            if name not in options:
                return Typed(found.command, problem=f"no option {name}")
            found.given.add(options[name].name)
            if word.endswith("."):
                break
            if not options[name].is_flag and "=" not in word:
                next(words, None)
        elif word == "…":
            found.goes_on = True
        elif _PROSE.fullmatch(word.rstrip(".")):
            break
        else:
            found.values += 1
            if word.endswith("."):
                break
    return found


def problem_of(found: Typed) -> str:
    arguments = [one for one in found.command.params if one.param_type_name == "argument"]
    options = [one for one in found.command.params if one.param_type_name == "option"]
    if found.problem or found.goes_on:
        return found.problem
    if all(one.nargs != -1 for one in arguments) and found.values > len(arguments):
        return f"{found.values} arguments, and it takes {len(arguments)}"
    if found.values < sum(one.required for one in arguments):
        return "arguments are missing"
    return " ".join(one.opts[0] for one in options if one.required and one.name not in found.given)


@pytest.mark.parametrize(("where", "words"), told())
def test_a_command_that_people_are_told_to_type_is_taken(where: str, words: str) -> None:
    found = typed(words.split())
    if found is not None:
        assert not problem_of(found), f"{where} tells people to type hermesops {words}"


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ("instance list --where x=y", "no option --where"),
        ("instance show", "arguments are missing"),
        ("instance show USER OTHER", "2 arguments, and it takes 1"),
        ("instance shows USER", None),
        ("instance Show USER", "no command Show"),
        ("release signers restore", "--reason"),
        ("release signers restore …", ""),
        ("instance show USER says which", ""),
        ("instance list", ""),
    ],
)
def test_what_the_command_line_would_not_take_is_found(words: str, problem: str | None) -> None:
    found = typed(words.split())
    assert (None if found is None else problem_of(found)) == problem


@pytest.mark.parametrize(("named", "command"), LISTED_BY.items())
def test_the_command_that_lists_the_things_of_a_noun_exists(named: str, command: str) -> None:
    found = typed(re.sub(r"\{\w+\}", "VALUE", command).split())
    assert found is not None, named
    assert not problem_of(found), f"{named}: hermesops {command}"


def test_commands_are_found_at_all() -> None:
    assert len(told()) > 300
