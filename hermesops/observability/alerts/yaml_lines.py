"""YAML with the line of each key, so that problems are reported with their line."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import yaml

from hermesops.observability.alerts.problem import Problem


@dataclass(frozen=True)
class Located:
    """A part of a document.

    Attributes:
        value: As ``yaml.safe_load`` has it, but with ``Located`` parts inside lists and mappings.
        line: From 1.
    """

    value: Any
    line: int

    def items(self) -> Iterator[tuple[str, "Located"]]:
        """Keys and values of a mapping; none for any other value."""
        if isinstance(self.value, dict):
            yield from self.value.items()

    def get(self, key: str) -> "Located | None":
        """That of a mapping; ``None`` where it is absent."""
        part: Located | None = self.value.get(key) if isinstance(self.value, dict) else None
        return part

    def parts(self) -> "list[Located]":
        """Items of a list; none for any other value."""
        return self.value if isinstance(self.value, list) else []

    @property
    def text(self) -> str:
        """A scalar as text; empty for anything else."""
        return "" if isinstance(self.value, dict | list) or self.value is None else str(self.value)


def read(text: str, file: str) -> Located | Problem:
    """Parse one YAML document; a problem when the text is none."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        return Located(None, 1) if root is None else _located(root)
    except (yaml.YAMLError, RecursionError, ValueError) as cause:
        mark = getattr(cause, "problem_mark", None)
        what = getattr(cause, "problem", None) or str(cause)
        return Problem(file, mark.line + 1 if mark else 0, f"not YAML: {what}")


def _located(node: yaml.Node) -> Located:
    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        return Located({str(key.value): _at(_located(value), key) for key, value in node.value}, line)
    if isinstance(node, yaml.SequenceNode):
        return Located([_located(part) for part in node.value], line)
    return Located(yaml.safe_load(yaml.serialize(node)) if node.tag != "tag:yaml.org,2002:str" else node.value, line)


def _at(located: Located, key: yaml.Node) -> Located:
    return Located(located.value, key.start_mark.line + 1)
