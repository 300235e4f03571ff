"""JSON objects of results are built in ``hermesops/views``, so that each face shows the same."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import hermesops

CLI = Path(hermesops.__file__).parent / "cli"
FACES = [*sorted((CLI / "commands").rglob("*.py")), *sorted((CLI / "options").glob("*.py"))]
MOST = 2
"""Keys of an object that a command may put together; one key or two name shapes of ``views``."""


def objects(tree: ast.Module) -> Iterator[tuple[int, list[str]]]:
    """Dictionaries with names as keys, outside constants of a module: their lines and keys."""
    constants = {
        id(node)
        for statement in tree.body
        if isinstance(statement, ast.Assign)
        for node in ast.walk(statement)
        if isinstance(node, ast.Dict)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Dict) and id(node) not in constants:
            keys = [key.value for key in node.keys if isinstance(key, ast.Constant) and isinstance(key.value, str)]
            yield node.lineno, [key for key in keys if key.isidentifier()]


@pytest.mark.parametrize("file", FACES, ids=lambda file: str(file.relative_to(CLI)))
def test_a_command_builds_no_json_object(file: Path) -> None:
    large = [(line, keys) for line, keys in objects(ast.parse(file.read_text())) if len(keys) > MOST]
    assert not large, f"{file.name}: build it in hermesops/views: {large}"


def test_lines_for_people_have_no_times_for_programs() -> None:
    importers = [
        str(file.relative_to(CLI))
        for file in sorted(CLI.rglob("*.py"))
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.ImportFrom)
        and node.module == "hermesops.views.timestamps"
        and "timestamp" in {name.name for name in node.names}
    ]
    assert not importers, f"build their shapes in hermesops/views: {importers}"


def test_a_shape_in_a_command_is_seen() -> None:
    tree = ast.parse('NAMES = {"a": 1, "b": 2, "c": 3}\ndef show():\n    result({"a": 1, "b": 2, "c": 3})\n')
    assert list(objects(tree)) == [(3, ["a", "b", "c"])]
