"""Services know fields, not options: only a command's face spells a field of a request as an option."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

import hermesops
from hermesops.cli.root import app

SOURCE = Path(hermesops.__file__).parent
FACES = ("cli", "programs")
"""Commands, and programs with command lines of their own."""

OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*")
SHOWN = re.compile("Error|Hint|Field|report|say|warn|refus")
"""Names of calls whose text an operator reads."""


def options(command: Any) -> set[str]:  # noqa: ANN401 - Click does not type it
    own = {name for parameter in command.params for name in (*parameter.opts, *parameter.secondary_opts)}
    names = command.list_commands(None) if hasattr(command, "list_commands") else ()
    return own.union(*(options(command.get_command(None, name)) for name in names))


def messages(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Text that an operator reads, but for commands in hints, whose words stand in tuples."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)) if SHOWN.search(name):
                yield from _texts(node)
            case ast.Raise():
                yield from _texts(node)


def _texts(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.Tuple | ast.List):
        return
    if isinstance(node, ast.Call) and getattr(node.func, "id", "").startswith("require_"):
        return  # the words of a command, for its hint
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.lineno, node.value
    for child in ast.iter_child_nodes(node):
        yield from _texts(child)


def test_texts_of_services_name_no_option_of_a_command() -> None:
    known = options(typer.main.get_command(app))
    assert {"--quiet-hours", "--where", "--json"} <= known
    wrong = [
        f"{file.relative_to(SOURCE)}:{line}: {text}"
        for file in sorted(SOURCE.rglob("*.py"))
        if file.relative_to(SOURCE).parts[0] not in FACES
        for line, text in sorted(set(messages(ast.parse(file.read_text()))))
        if known.intersection(OPTION.findall(text)) and not _is_foreign(text)
    ]
    assert wrong == [], "errors have a field, hints a Parameter: hermesops/errors.py"


def _is_foreign(text: str) -> bool:
    """Text that names options of another program: the engine repeats Pulumi's own messages."""
    return "--target" in text


def test_the_test_notices_an_option_in_a_message() -> None:
    def named(code: str) -> list[str]:
        return [text for _, text in messages(ast.parse(code)) if OPTION.search(text)]

    assert named('raise UsageError(f"missing --reason: {why}")')
    assert named('Hint("then --approved-by FILE")')
    assert named('hint(x, report("continues with --soak"))')
    assert named('x = RefusedError("a", hint=Hint(("stack", "up"), ("stack", "up", "--all"), "--share 5%"))')
    assert not named('Hint(("instance", "resume", "USER", "--reason", "WHY"), "resumes it")')
    assert not named('run("systemctl --quiet")')
