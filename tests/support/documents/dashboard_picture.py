"""Draws a dashboard as SVG, from its JSON and what a Prometheus answers to its queries."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from html import escape
from typing import Any

import httpx

from hermesops.observability.alerts.dashboards import Dashboard, Panel, Query, filled

_COLUMN, _ROW, _GAP, _TOP = 48, 26, 6, 44
_COLOURS = (
    "#5794f2",
    "#73bf69",
    "#f2495c",
    "#ff9830",
    "#b877d9",
    "#fade2a",
    "#8ab8ff",
    "#96d98d",
    "#ff7383",
    "#ca95e5",
)
_NAMED = {"green": "#73bf69", "orange": "#ff9830", "red": "#f2495c"}
_POINTS = 180
_LEGEND = 6

Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """What one series of a panel's answer is drawn from.

    Attributes:
        points: Seconds since 1970 and value; one where the panel shows a single value.
    """

    name: str
    points: Sequence[Point]


@dataclass(frozen=True)
class Span:
    """The stretch of time that is drawn, in seconds since 1970."""

    begin: float
    end: float


def ask(url: str, dashboard: Dashboard, span: Span, values: Mapping[str, str]) -> dict[str, list[Line]]:
    """What a Prometheus answers to each panel, by the panel's title."""
    with httpx.Client(base_url=url, trust_env=False, timeout=30) as client:
        return {
            panel.title: [line for query in panel.queries for line in _lines(client, panel, query, span, values)]
            for panel in dashboard.panels
        }


def drawn(dashboard: Dashboard, answers: Mapping[str, Sequence[Line]], span: Span, subtitle: str) -> str:
    """The picture."""
    width = 24 * _COLUMN + _GAP
    height = max(y + h for _, y, _, h in (panel.place for panel in dashboard.panels)) * _ROW + _TOP + _GAP
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}">',
        '<g font-family="Helvetica, Arial, sans-serif">',
        f'<rect width="{width}" height="{height}" fill="#111217"/>',
        _text(12, 28, f"{dashboard.title}  ", 18, "#f0f1f5", weight="bold"),
        _text(width - 12, 28, subtitle, 12, "#8e8f99", anchor="end"),
    ]
    for panel in dashboard.panels:
        parts += _panel(panel, answers[panel.title], span)
    return "\n".join([*parts, "</g>", "</svg>", ""])


def shown(value: float, unit: str) -> str:
    """A value in its unit, as short as people say it."""
    if math.isnan(value):
        return "-"
    sign, size = ("-" if value < 0 else ""), abs(value)
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit == "currencyUSD":
        return f"{sign}${size:,.2f}" if size < 100 else f"{sign}${size:,.0f}"
    if unit == "s":
        return sign + _duration(size)
    if unit == "bytes":
        return sign + _scaled(size, 1024, ("B", "KiB", "MiB", "GiB", "TiB"))
    return sign + _scaled(size, 1000, ("", "k", "M", "G")) + ("/s" if unit == "reqps" else "")


def _lines(client: httpx.Client, panel: Panel, query: Query, span: Span, values: Mapping[str, str]) -> Iterator[Line]:
    parameters: dict[str, str | float] = {"query": filled(query.expression, values)}
    if panel.kind == "timeseries":
        step = (span.end - span.begin) / _POINTS
        answer = client.get(
            "/api/v1/query_range", params={**parameters, "start": span.begin, "end": span.end, "step": step}
        )
    else:
        answer = client.get("/api/v1/query", params={**parameters, "time": span.end})
    assert answer.status_code == 200, f"{panel.title}: {query.expression}: {answer.text}"
    for series in answer.json()["data"]["result"]:
        samples = series.get("values") or [series["value"]]
        points = [(float(at), float(value)) for at, value in samples]
        yield Line(_legend(query, series["metric"]), points)


def _legend(query: Query, labels: Mapping[str, Any]) -> str:
    name = query.legend
    for label, value in labels.items():
        name = name.replace(f"{{{{{label}}}}}", str(value))
    return name


def _panel(panel: Panel, lines: Sequence[Line], span: Span) -> Iterator[str]:
    column, row, columns, rows = panel.place
    x, y = column * _COLUMN + _GAP, row * _ROW + _TOP
    width, height = columns * _COLUMN - _GAP, rows * _ROW - _GAP
    yield f'<g transform="translate({x} {y})">'
    yield f'<rect width="{width}" height="{height}" rx="3" fill="#181b1f" stroke="#2c3235"/>'
    yield _text(10, 18, panel.title, 12, "#ccccdc", weight="bold")
    if not lines:
        yield _text(width / 2, height / 2 + 8, "no data", 13, "#8e8f99", anchor="middle")
    elif panel.kind == "timeseries":
        yield from _graph(panel, lines, span, width, height)
    elif panel.kind == "stat":
        value = lines[0].points[-1][1]
        colour = _NAMED["green"]
        for limit, name in panel.thresholds:
            colour = _NAMED.get(name, name) if value >= limit else colour
        size = min(30, height - 44)
        yield _text(
            width / 2, 26 + (height - 26) / 2 + size / 3, shown(value, panel.unit), size, colour, anchor="middle"
        )
    elif panel.kind == "bargauge":
        yield from _bars(panel, lines, width, height)
    else:
        yield from _rows(lines, height)
    yield "</g>"


def _graph(panel: Panel, lines: Sequence[Line], span: Span, width: float, height: float) -> Iterator[str]:
    left, top, right, bottom = 58.0, 28.0, width - 10, height - 40
    drawn_lines = _stacked(lines) if panel.is_stacked else [(line, line.points, None) for line in lines]
    most = max((value for _, points, _ in drawn_lines for _, value in points if math.isfinite(value)), default=0)
    least = min(0.0, *(value for _, points, _ in drawn_lines for _, value in points if math.isfinite(value)))
    highest = _rounded(most - least or 1, panel.unit) + least

    def across(at: float) -> float:
        return left + (at - span.begin) / (span.end - span.begin) * (right - left)

    def down(value: float) -> float:
        return bottom - (value - least) / (highest - least) * (bottom - top)

    for tick in range(5):
        value = least + (highest - least) * tick / 4
        yield f'<path d="M{left:.1f} {down(value):.1f}H{right:.1f}" stroke="#2c3235"/>'
        yield _text(left - 6, down(value) + 4, shown(value, panel.unit), 10, "#8e8f99", anchor="end")
    for tick in range(1, 6):
        at = span.begin + (span.end - span.begin) * tick / 6
        yield _text(across(at), bottom + 13, f"{datetime.fromtimestamp(at, UTC):%H:%M}", 10, "#8e8f99", anchor="middle")
    for number, (_, points, floor) in enumerate(drawn_lines):
        colour = _COLOURS[number % len(_COLOURS)]
        for part in _without_gaps(points, span):
            path = "L".join(f"{across(at):.1f} {down(value):.1f}" for at, value in part)
            yield f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="1.4"/>'
            if floor is not None:
                under = "L".join(f"{across(at):.1f} {down(floor.get(at, 0)):.1f}" for at, _ in reversed(part))
                yield f'<path d="M{path}L{under}Z" fill="{colour}" fill-opacity="0.25"/>'
    yield from _legends([line.name for line in lines], width, height)


def _stacked(lines: Sequence[Line]) -> list[tuple[Line, list[Point], Mapping[float, float]]]:
    floor = dict[float, float]()
    stacked = list[tuple[Line, list[Point], Mapping[float, float]]]()
    for line in lines:
        points = [(at, value + floor.get(at, 0)) for at, value in line.points]
        stacked.append((line, points, dict(floor)))
        floor.update(points)
    return stacked


def _without_gaps(points: Sequence[Point], span: Span) -> Iterator[list[Point]]:
    part, step = list[Point](), (span.end - span.begin) / _POINTS
    for at, value in points:
        if part and (at - part[-1][0] > 1.5 * step or not math.isfinite(value)):
            yield part
            part = []
        if math.isfinite(value):
            part.append((at, value))
    if part:
        yield part


def _legends(names: Sequence[str], width: float, height: float) -> Iterator[str]:
    x = 12.0
    for number, name in enumerate(names[:_LEGEND]):
        if x + 20 + 6.2 * len(name) > width:
            return
        yield f'<rect x="{x:.0f}" y="{height - 17}" width="10" height="3" fill="{_COLOURS[number % len(_COLOURS)]}"/>'
        yield _text(x + 14, height - 12, name, 10.5, "#ccccdc")
        x += 28 + 6.2 * len(name)


def _bars(panel: Panel, lines: Sequence[Line], width: float, height: float) -> Iterator[str]:
    most = max(line.points[-1][1] for line in lines) or 1
    each = min(24.0, (height - 34) / len(lines))
    for number, line in enumerate(sorted(lines, key=lambda line: -line.points[-1][1])):
        value, y = line.points[-1][1], 28 + number * each
        yield _text(110, y + each * 0.7, line.name, 10.5, "#ccccdc", anchor="end")
        yield (
            f'<rect x="118" y="{y + 2:.1f}" width="{(width - 200) * value / most:.1f}" height="{each - 5:.1f}" '
            f'fill="{_COLOURS[0]}"/>'
        )
        yield _text(width - 10, y + each * 0.7, shown(value, panel.unit), 10.5, "#ccccdc", anchor="end")


def _rows(lines: Sequence[Line], height: float) -> Iterator[str]:
    for number, line in enumerate(lines[: int((height - 30) / 18)]):
        yield _text(12, 42 + number * 18, line.name, 12, "#ccccdc")


def _text(
    x: float, y: float, text: str, size: float, colour: str, *, anchor: str = "start", weight: str = "normal"
) -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" fill="{colour}" text-anchor="{anchor}" font-weight="{weight}"'
    return f"<text {place}>{escape(text.strip())}</text>"


def _rounded(value: float, unit: str) -> float:
    """The next of 1, 2, 4, 8 and 10 of a size that people count in."""
    size = 1.0
    if unit == "bytes":
        size = 1024.0 ** max(0, int(math.log(value, 1024)))
    elif unit == "s":
        size = next((seconds for seconds in (86400.0, 3600.0, 60.0) if value >= seconds), 1.0)
    size *= 10.0 ** math.floor(math.log10(value / size))
    return next(step * size for step in (1, 2, 4, 8, 10) if step * size >= value * 0.999)


def _duration(seconds: float) -> str:
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.3g} s"


def _scaled(value: float, base: int, units: Sequence[str]) -> str:
    for unit in units[:-1]:
        if value < base:
            return f"{value:.3g} {unit}".strip()
        value /= base
    return f"{value:.3g} {units[-1]}"
