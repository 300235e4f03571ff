"""``hermesops.app`` only wires: it decides nothing, refuses nothing, and has no text that anybody reads."""

import ast
from collections.abc import Iterator
from pathlib import Path

import hermesops.app

FOLDER = Path(hermesops.app.__file__).parent

SAID = {
    (
        "adapters.py",
        "building an image",
    ): "names the command that needs an extra, before the module of that extra loads",
    ("adapters.py", "building a release"): "as above",
}
"""Texts that stay, and why."""


def trees() -> Iterator[tuple[str, ast.Module]]:
    for file in sorted(FOLDER.rglob("*.py")):
        yield file.relative_to(FOLDER).as_posix(), ast.parse(file.read_text())


def texts_of(tree: ast.Module) -> Iterator[str]:
    """Strings with a blank in them, except docstrings and annotations."""
    quiet = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            quiet.add(node.value)
        for field in ("annotation", "returns"):
            if annotation := getattr(node, field, None):
                quiet |= {part for part in ast.walk(annotation) if isinstance(part, ast.Constant)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in quiet and " " in node.value:
            yield node.value


def test_nothing_is_refused_here() -> None:
    places = [(name, node.lineno) for name, tree in trees() for node in ast.walk(tree) if isinstance(node, ast.Raise)]
    assert places == [], "whatever refuses belongs into the room of its noun"


def test_nothing_is_said_here() -> None:
    pairs = {(name, text) for name, tree in trees() for text in texts_of(tree)}
    assert pairs == SAID.keys(), "whatever words a message belongs into the room of its noun"


def test_a_text_is_found() -> None:
    tree = ast.parse('def one(x: "a b") -> "c d":\n    """Not this."""\n    report(f"and {x} this")\n')
    assert list(texts_of(tree)) == ["and ", " this"]
