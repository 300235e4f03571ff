"""Grafana's dashboards as files: reads panels and queries, and checks them.

Source: grafana.com/docs/grafana/v11.2, "Dashboard JSON model"; variables in "Add and manage variables".
"""

import json
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.observability.alerts.problem import Problem
from hermesops.observability.alerts.rules import unknown_records

PANELS = frozenset({"timeseries", "stat", "bargauge", "table"})
"""Kinds of panels that our dashboards have."""

_EXPRESSION = re.compile(r'"expr"\s*:')
_VARIABLE = re.compile(r"\$(?:\{([A-Za-z_]\w*)(?::\w+)?\}|([A-Za-z_]\w*))")
_BUILT_IN = {"__rate_interval": "5m", "__range": "6h", "__interval": "1m", "__range_s": "21600"}


@dataclass(frozen=True)
class Query:
    """One query of a panel.

    Attributes:
        expression: PromQL with Grafana's variables.
        legend: With ``{{label}}``; empty for all labels.
        line: Of the file, from 1.
    """

    expression: str
    legend: str
    line: int


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        kind: One of ``PANELS``.
        unit: Grafana's name of it, as ``bytes`` or ``percentunit``.
        place: Column, row, width and height on a grid of 24 columns.
        is_stacked: Whether its lines stand on top of each other.
        thresholds: Values from which on it has another colour, and that colour.
    """

    title: str
    kind: str
    unit: str
    place: tuple[int, int, int, int]
    is_stacked: bool
    thresholds: tuple[tuple[float, str], ...]
    queries: tuple[Query, ...]


@dataclass(frozen=True)
class Dashboard:
    """One dashboard.

    Attributes:
        variables: Names that queries may use.
    """

    file: str
    uid: str
    title: str
    variables: tuple[str, ...]
    panels: tuple[Panel, ...]

    def queries(self) -> list[Query]:
        """Queries of all panels, in file order."""
        return [query for panel in self.panels for query in panel.queries]


def read(text: str, file: str) -> Dashboard | Problem:
    """Parse a dashboard; a problem when the text is none."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as cause:
        return Problem(file, cause.lineno, f"not JSON: {cause.msg}")
    except RecursionError:
        return Problem(file, 0, "nested too deeply")
    lines = (text.count("\n", 0, match.start()) + 1 for match in _EXPRESSION.finditer(text))
    try:
        return Dashboard(
            file=file,
            uid=str(document["uid"]),
            title=str(document["title"]),
            variables=tuple(str(variable["name"]) for variable in document.get("templating", {}).get("list", ())),
            panels=tuple(_panel(panel, lines) for panel in document["panels"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as cause:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        return Problem(file, 0, f"not a Grafana dashboard: {what}")


def problems(dashboard: Dashboard, records: Collection[str]) -> list[Problem]:
    """Check a dashboard for problems, PromQL aside.

    Args:
        records: Series that rules record.
    """
    return sorted(_problems(dashboard, records))


def filled(expression: str, values: Mapping[str, str] | None = None) -> str:
    """Substitute a query's variables; a variable without a value becomes ``.*``."""
    known = {**_BUILT_IN, **(values or {})}
    return _VARIABLE.sub(lambda name: known.get(name[1] or name[2], ".*"), expression)


def _problems(dashboard: Dashboard, records: Collection[str]) -> Iterator[Problem]:
    if not dashboard.panels:
        yield Problem(dashboard.file, 0, f"dashboard {dashboard.title} has no panels")
    titles = set[str]()
    for panel in dashboard.panels:
        if panel.title in titles:
            yield Problem(dashboard.file, _line(panel), f"another panel is named {panel.title}")
        titles.add(panel.title)
        if panel.kind not in PANELS:
            yield Problem(dashboard.file, _line(panel), f"panel {panel.title}: {panel.kind} is none of {_listed()}")
        if not panel.queries:
            yield Problem(dashboard.file, 0, f"panel {panel.title} asks for nothing")
        for query in panel.queries:
            yield from _of_query(dashboard, query, records)


def _of_query(dashboard: Dashboard, query: Query, records: Collection[str]) -> Iterator[Problem]:
    if not query.expression.strip():
        yield Problem(dashboard.file, query.line, "a query is empty")
    for match in _VARIABLE.finditer(query.expression):
        name = match[1] or match[2]
        if name not in _BUILT_IN and name not in dashboard.variables:
            yield Problem(dashboard.file, query.line, f"the dashboard has no variable {name}")
    for name in unknown_records(query.expression, records):
        yield Problem(dashboard.file, query.line, f"no rule records {name}")


def _panel(panel: Mapping[str, Any], lines: Iterator[int]) -> Panel:
    grid, defaults = panel["gridPos"], panel.get("fieldConfig", {}).get("defaults", {})
    steps = defaults.get("thresholds", {}).get("steps", ())
    return Panel(
        title=str(panel["title"]),
        kind=str(panel["type"]),
        unit=str(defaults.get("unit", "short")),
        place=(int(grid["x"]), int(grid["y"]), int(grid["w"]), int(grid["h"])),
        is_stacked="stacking" in defaults.get("custom", {}),
        thresholds=tuple((float(step["value"]), str(step["color"])) for step in steps if step["value"] is not None),
        queries=tuple(
            Query(str(target["expr"]), str(target.get("legendFormat", "")), next(lines))
            for target in panel.get("targets", ())
        ),
    )


def _line(panel: Panel) -> int:
    return panel.queries[0].line if panel.queries else 0


def _listed() -> str:
    return ", ".join(sorted(PANELS))
