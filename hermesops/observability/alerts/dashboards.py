"""Grafana's dashboards as files: their panels and queries, and what is wrong with them.

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
        """Those of all panels, in the order of the file."""
        return [query for panel in self.panels for query in panel.queries]


def read(text: str, file: str) -> Dashboard | Problem:
    """A dashboard; what is wrong where it is none."""
    try:
        document = json.loads(text)
    except json.JSONDecodeError as cause:
        return Problem(file, cause.lineno, f"this is no JSON: {cause.msg}")
    except RecursionError:
        return Problem(file, 0, "this is nested too deeply")
    lines = (text.count("\n", 0, found.start()) + 1 for found in _EXPRESSION.finditer(text))
    try:
        return Dashboard(
            file=file,
            uid=str(document["uid"]),
            title=str(document["title"]),
            variables=tuple(str(one["name"]) for one in document.get("templating", {}).get("list", ())),
            panels=tuple(_panel(one, lines) for one in document["panels"]),
        )
    except (KeyError, TypeError, AttributeError, ValueError) as cause:
        what = f"{cause} is missing" if isinstance(cause, KeyError) else str(cause)
        return Problem(file, 0, f"this is no dashboard of Grafana: {what}")


def problems(dashboard: Dashboard, records: Collection[str]) -> list[Problem]:
    """What is wrong with a dashboard, PromQL aside.

    Args:
        records: Series that rules record.
    """
    return sorted(_problems(dashboard, records))


def filled(expression: str, values: Mapping[str, str] | None = None) -> str:
    """A query with values for its variables; one without a value takes what fits any."""
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
    for found in _VARIABLE.finditer(query.expression):
        name = found[1] or found[2]
        if name not in _BUILT_IN and name not in dashboard.variables:
            yield Problem(dashboard.file, query.line, f"the dashboard has no variable {name}")
    for name in unknown_records(query.expression, records):
        yield Problem(dashboard.file, query.line, f"no rule records {name}")


def _panel(said: Mapping[str, Any], lines: Iterator[int]) -> Panel:
    grid, defaults = said["gridPos"], said.get("fieldConfig", {}).get("defaults", {})
    steps = defaults.get("thresholds", {}).get("steps", ())
    return Panel(
        title=str(said["title"]),
        kind=str(said["type"]),
        unit=str(defaults.get("unit", "short")),
        place=(int(grid["x"]), int(grid["y"]), int(grid["w"]), int(grid["h"])),
        is_stacked="stacking" in defaults.get("custom", {}),
        thresholds=tuple((float(one["value"]), str(one["color"])) for one in steps if one["value"] is not None),
        queries=tuple(
            Query(str(one["expr"]), str(one.get("legendFormat", "")), next(lines)) for one in said.get("targets", ())
        ),
    )


def _line(panel: Panel) -> int:
    return panel.queries[0].line if panel.queries else 0


def _listed() -> str:
    return ", ".join(sorted(PANELS))
