"""The fleet: everything that is wrong now, with its reason and its next step, then cells and counts."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from hermesops.base.typed_values import one_of
from hermesops.model.fleet.health import Condition
from hermesops.views.agents import fleet as shapes

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.observability.telemetry.alerts.shown_alerts import KnownAlerts

FILTERS = ("where", "health", "q")
"""Parameters of the page's address, which choose its rows."""

MOST = 100
"""Rows of what is wrong, and of unknown agents; a link leads to the others."""

_CELLS = 200
"""Cells with a row of their own; beyond, those come first in which something is not healthy."""


def shown(container: "Container", name: str, known: "KnownAlerts") -> Mapping[str, Any]:
    """The fleet or a part of it.

    Args:
        name: Of the topic: the filters, as an address has them.
        known: Open alerts.

    Raises:
        UsageError: A filter cannot be read.
    """
    filters = {key: values[0] for key, values in parse_qs(name).items()}
    health, text, fleet = filters.get("health", ""), filters.get("q", ""), container.fleet
    status = fleet.status(
        fleet.selector(filters.get("where", "")),
        (),
        known.open,
        unread=known.unread,
        troubled={one_of(Condition, health, "health")} if health else None,
        most=MOST,
        text=text,
    )
    shape: dict[str, Any] = shapes.status(status)
    rows = shape.pop("trouble")
    wrong, unknown = [row for row in rows if not _is_unknown(row)], [row for row in rows if _is_unknown(row)]
    cells = shape.pop("cells")
    return {
        "fleet": shape,
        "cells": cells if len(cells) <= _CELLS else sorted(cells, key=_is_healthy)[:_CELLS],
        "cell_count": len(cells),
        "wrong": wrong[:MOST],
        "wrong_count": status.wrong,
        "unknown": unknown[:MOST],
        "unknown_count": status.unknown,
        "conditions": _counted(shape["by_health"]),
    }


def _is_unknown(row: Mapping[str, Any]) -> bool:
    """Whether nothing is known to be wrong, and nothing to be well."""
    return bool(row["health"] == Condition.UNKNOWN and not row["alerts"])


def _is_healthy(cell: Mapping[str, Any]) -> bool:
    return not cell["by_health"].keys() - {Condition.HEALTHY}


def _counted(by_health: Mapping[str, int]) -> Sequence[tuple[str, int]]:
    """Conditions with their counts, the worst first."""
    return [(condition.value, by_health[condition]) for condition in Condition if condition in by_health]
