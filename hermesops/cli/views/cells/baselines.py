"""Output of ``stack compare`` for people."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from hermesops.base.narration import counted
from hermesops.cli.console import is_json, result, table_lines
from hermesops.errors import CHANGES_REMAIN
from hermesops.views import stacks as shapes
from hermesops.wire.foreign_text import one_line

if TYPE_CHECKING:
    from hermesops.agents.cells.changes.baselines import StackDifferences
    from hermesops.infra.stacks.baseline import Baseline

_LONGEST = 60
"""Characters of a value that people see; programs get all of it."""

_COLUMNS = ("stack", "kind", "type", "name", "property", "before", "after")


def report(before: "Baseline", compared: "Sequence[StackDifferences]", *, remaining: bool) -> int:
    """Print the changes, and the properties that a comparison without a registry cannot determine.

    Returns:
        The exit code: 7 for changes with ``remaining``, else 0.
    """
    shape = shapes.comparison(before, compared)
    changes = shape["changes"]
    result("stack-compare", shape, () if is_json() else _lines(shape["baseline"], changes, shape["cannot_know"]))
    return CHANGES_REMAIN if changes and remaining else 0


def _lines(made_at: str, changes: Sequence[Mapping[str, Any]], cannot_know: Iterable[str]) -> list[str]:
    rows = [row for change in changes for row in _rows(change)]
    return [
        *table_lines(_COLUMNS, rows, f"no changes, compared with the baseline of {made_at}"),
        *([f"{counted(len(changes), 'resource')}, compared with the baseline of {made_at}"] if changes else []),
        *(f"cannot know: {item}" for item in cannot_know),
    ]


def _rows(change: Mapping[str, Any]) -> Iterator[dict[str, object]]:
    """A line for each property; one for a resource that is made or deleted."""
    for property_change in change["properties"] or [{}]:
        values = {name: one_line(property_change.get(name, ""), longest=_LONGEST) for name in ("before", "after")}
        yield {**change, "property": property_change.get("property", ""), **values}
