"""Draws which package may import which, from import-linter's layers and the packages' own first sentences."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[3]

_WIDTH, _BOX, _GAP, _HIGH, _PAD = 1000, 150, 8, 34, 16
_COLUMNS = (_WIDTH - 2 * _PAD + _GAP) // (_BOX + _GAP)
_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif">
<title>Packages of hermesops: each row may import the rows below it</title>
<rect width="100%" height="100%" fill="#ffffff"/>"""
_ROW = '<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="#eef2f7"/>'
_BOX_OF = """<g><title>{what}</title>
<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="#ffffff" stroke="#5b6b82"/>
<text x="{middle}" y="{line}" text-anchor="middle" font-size="13" fill="#1c2733">{name}</text></g>"""


def architecture() -> str:
    """The picture as SVG: a row of boxes for each layer, the highest on top."""
    lines, y = [], _PAD
    for layer in layers():
        rows = [layer[start : start + _COLUMNS] for start in range(0, len(layer), _COLUMNS)]
        high = len(rows) * (_HIGH + _GAP) + _GAP
        lines.append(_ROW.format(x=_PAD // 2, y=y, wide=_WIDTH - _PAD, high=high))
        for number, row in enumerate(rows):
            lines.extend(_boxes(row, y + _GAP + number * (_HIGH + _GAP)))
        y += high + _GAP
    return "\n".join([_HEAD.format(wide=_WIDTH, high=y), *lines, "</svg>\n"])


def layers() -> list[list[str]]:
    """Packages by layer, the highest first; those that stand side by side import none of each other."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"][0]["layers"]
    found = [[name.strip(" ()") for name in layer.split("|")] for layer in told]
    return [kept for layer in found if (kept := [name for name in layer if name != "__main__" and _path(name)])]


def _boxes(row: Sequence[str], y: int) -> Iterator[str]:
    left = (_WIDTH - len(row) * (_BOX + _GAP) + _GAP) // 2
    for column, name in enumerate(row):
        x = left + column * (_BOX + _GAP)
        middle, line = x + _BOX // 2, y + _HIGH // 2 + 5
        what = escape(_first_sentence(name))
        yield _BOX_OF.format(x=x, y=y, wide=_BOX, high=_HIGH, middle=middle, line=line, name=name, what=what)


def _path(name: str) -> Path | None:
    places = (ROOT / "hermesops" / name / "__init__.py", ROOT / "hermesops" / f"{name}.py")
    return next((place for place in places if place.exists()), None)


def _first_sentence(name: str) -> str:
    path = _path(name)
    told = ast.get_docstring(ast.parse(path.read_text())) if path else ""
    return re.split(r"(?<=\.)\s|\n\n", told or name, maxsplit=1)[0].replace("\n", " ")
