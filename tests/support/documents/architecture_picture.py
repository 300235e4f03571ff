"""Draws which package may import which, from import-linter's layers and the packages' own first sentences."""

import ast
import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

ROOT = Path(__file__).parents[3]

_WIDTH, _LABEL, _BOX, _GAP, _HIGH, _PAD = 1000, 120, 132, 8, 34, 16
_COLUMNS = (_WIDTH - 2 * _PAD - _LABEL + _GAP) // (_BOX + _GAP)
_WINGS_OF_ONE = ("cli", "app", "localcloud", "model")
"""Wings that are one package: their parts are no packages of their own."""

_HEAD = """<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" font-family="sans-serif">
<title>Wings of hermesops and their packages: each row may import the rows below it</title>
<rect width="100%" height="100%" fill="#ffffff"/>"""
_ROW = """<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="6" fill="#eef2f7"/>
<g><title>{what}</title>
<text x="{label}" y="{line}" font-size="13" font-weight="bold" fill="#1c2733">{name}</text></g>"""
_BOX_OF = """<g><title>{what}</title>
<rect x="{x}" y="{y}" width="{wide}" height="{high}" rx="4" fill="#ffffff" stroke="#5b6b82"/>
<text x="{middle}" y="{line}" text-anchor="middle" font-size="13" fill="#1c2733">{name}</text></g>"""


def architecture() -> str:
    """The picture as SVG: a row for each wing with a box for each of its packages, the highest on top."""
    lines, y = [], _PAD
    for wing, packages in wings().items():
        rows = [packages[start : start + _COLUMNS] for start in range(0, len(packages), _COLUMNS)] or [[]]
        high = len(rows) * (_HIGH + _GAP) + _GAP
        frame = {"x": _PAD // 2, "y": y, "wide": _WIDTH - _PAD, "high": high, "what": escape(_first_sentence(wing))}
        lines.append(_ROW.format(**frame, name=wing, label=_PAD, line=y + _GAP + _HIGH // 2 + 5))
        for number, row in enumerate(rows):
            lines.extend(_boxes(wing, row, y + _GAP + number * (_HIGH + _GAP)))
        y += high + _GAP
    return "\n".join([_HEAD.format(wide=_WIDTH, high=y), *lines, "</svg>\n"])


def wings() -> dict[str, list[str]]:
    """Packages and modules by wing, the highest wing first; a wing that is one package or module has none."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    names = [name for name in contracts[0]["layers"] if name != "__main__" and _path(name)]
    return {name: [] if name in _WINGS_OF_ONE else _packages(name) for name in names}


def _packages(wing: str) -> list[str]:
    folder = ROOT / "hermesops" / wing
    entries = [path.name.removesuffix(".py") for path in folder.iterdir()] if folder.is_dir() else []
    return sorted(name for name in entries if not name.startswith("_") and _path(f"{wing}/{name}"))


def _boxes(wing: str, row: Sequence[str], y: int) -> Iterator[str]:
    for column, name in enumerate(row):
        x = _PAD + _LABEL + column * (_BOX + _GAP)
        middle, line = x + _BOX // 2, y + _HIGH // 2 + 5
        what = escape(_first_sentence(f"{wing}/{name}"))
        yield _BOX_OF.format(x=x, y=y, wide=_BOX, high=_HIGH, middle=middle, line=line, name=name, what=what)


def _path(name: str) -> Path | None:
    places = (ROOT / "hermesops" / name / "__init__.py", ROOT / "hermesops" / f"{name}.py")
    return next((place for place in places if place.exists()), None)


def _first_sentence(name: str) -> str:
    path = _path(name)
    docstring = ast.get_docstring(ast.parse(path.read_text())) if path else ""
    return re.split(r"(?<=\.)\s|\n\n", docstring or name, maxsplit=1)[0].replace("\n", " ")
