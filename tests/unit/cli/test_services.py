"""Commands call services: none of their modules reads the registry, whose rules another face would have to copy."""

import ast
from pathlib import Path

import pytest

import hermesops.cli

CLI = Path(hermesops.cli.__file__).parent


def reads(source: str) -> list[int]:
    """Lines that read an attribute ``registry``."""
    nodes = ast.walk(ast.parse(source))
    return [node.lineno for node in nodes if isinstance(node, ast.Attribute) and node.attr == "registry"]


def test_no_module_of_commands_reads_the_registry() -> None:
    reads_by_file = {str(file.relative_to(CLI)): reads(file.read_text(encoding="utf-8")) for file in CLI.rglob("*.py")}
    assert reads_by_file
    lines = [f"{name}:{line}" for name, these in sorted(reads_by_file.items()) for line in these]
    assert not lines, "call a service of the container instead: " + ", ".join(lines)


@pytest.mark.parametrize(
    "source", ["composed.registry.instances.find(user)", "x = session.app.registry", "open = lambda: runtime.registry"]
)
def test_every_way_to_read_it_is_seen(source: str) -> None:
    assert reads(source) == [1]
    assert reads(source.replace("registry", "registry_place")) == []
