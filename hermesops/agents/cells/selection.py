"""The cells that a command names; no command is about all cells by default. Pure."""

from collections.abc import Sequence

from hermesops.errors import Hint, Parameter, UsageError
from hermesops.model.fleet.cell import Cell, parse_cell
from hermesops.model.fleet.selector import WHERE, Selector
from hermesops.model.plan import Plan
from hermesops.model.unknown_name import unknown_name

FIELDS = frozenset({"cell", "region", "plan"})
"""Fields of a selector of cells."""


def select_cells(cells: Sequence[Cell], *, names: Sequence[str], where: str, everything: bool) -> tuple[Cell, ...]:
    """The cells that an operator named, each once, by name.

    Args:
        where: A selector as typed; empty for none. With ``plan``, cells that take that plan are meant.

    Raises:
        UsageError: Not exactly one of them was given, a cell does not exist, or the selector selects none.
    """
    if (bool(names), bool(where), everything).count(True) != 1:
        raise UsageError(
            "missing CELL: name cells, or choose them in one other way",
            hint=Hint(
                "use either",
                Parameter("where", "region=REGION"),
                "or",
                Parameter("all"),
                ";",
                ("cell", "list"),
                "shows cells",
            ),
        )
    if names:
        return _named(cells, names)
    if everything:
        return _some(cells, "there are no cells yet; the first provision opens one")
    return _some(filter_cells(cells, where), f"{where} selects no cell", field=WHERE)


def filter_cells(cells: Sequence[Cell], where: str) -> tuple[Cell, ...]:
    """The cells that a selector takes; all of them when it is empty.

    Raises:
        UsageError: It is malformed, or names a cell that does not exist.
    """
    selector = Selector.parse(where, fields=FIELDS)
    names = [cell.name for cell in cells]
    for missing in sorted(selector.values("cell") - set(names)):
        raise unknown_name("cell", missing, names)
    return tuple(cell for cell in cells if _is_meant(cell, selector))


def _named(cells: Sequence[Cell], names: Sequence[str]) -> tuple[Cell, ...]:
    parsed = {parse_cell(name) for name in names}
    selected = tuple(cell for cell in cells if cell.name in parsed)
    if missing := sorted(parsed - {cell.name for cell in selected}):
        raise unknown_name("cell", missing[0], [cell.name for cell in cells])
    return selected


def _some(cells: Sequence[Cell], none: str, *, field: str = "") -> tuple[Cell, ...]:
    if not cells:
        raise UsageError(none, hint=Hint(("cell", "list")), field=field)
    return tuple(cells)


def _is_meant(cell: Cell, selector: Selector) -> bool:
    plans = [cell.only_plan] if cell.only_plan else list(Plan)
    return any(selector.takes({"cell": cell.name, "region": cell.region, "plan": plan}) for plan in plans)
