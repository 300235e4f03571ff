"""Reads a runbook's diagnosis table and finds the rows that fit the output of its steps.

A row's first cell names outputs in backticks, each behind the step that prints it where only that one counts:
"`show` shows `gateway silent` and `machine status ready`". A cell with other words is for a person to judge.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from hermesops.errors import fill
from hermesops.observability.runbook.matching import shows

_WORD = re.compile(r"`([^`]+)`|([^\s`,;:.]+)")
_LINK = re.compile(r"\[([^]]+)\]\(([a-z-]+)\.md\)")
_JOINING = frozenset({"and", "or", "says", "shows", "in", "the", "log"})
"""Words of a first cell beside which outputs alone say whether the row fits."""

_COLUMNS = 2


@dataclass(frozen=True)
class Printed:
    """A text that a row expects, and the steps in whose output it is searched; no steps means all."""

    steps: frozenset[str]
    text: str


@dataclass(frozen=True)
class Case:
    """A row of the table.

    Attributes:
        meaning: Its second cell: what it is.
        ways: Alternatives, of each of which all has to be seen; none for a row that a person has to judge.
    """

    meaning: str
    ways: tuple[tuple[Printed, ...], ...]

    def filled(self, values: Mapping[str, str]) -> "Case":
        """Fill an instance's values into the case."""
        put = partial(fill, values=values)
        ways = tuple(tuple(replace(printed, text=put(printed.text)) for printed in way) for way in self.ways)
        return Case(put(self.meaning), ways)

    def evidence(self, outputs: Mapping[str, str]) -> tuple[str, ...]:
        """The expected texts of the first alternative that the outputs, by step name, satisfy; empty when none fits."""
        for way in self.ways:
            if all(_is_shown(printed, outputs) for printed in way):
                return tuple(printed.text for printed in way)
        return ()


def cases_of(lines: Sequence[str], steps: Mapping[str, frozenset[str]]) -> tuple[Case, ...]:
    """Rows of the tables of two columns in some lines.

    Args:
        steps: Names of steps, by each word or words that a cell may name them by.
    """
    cases, is_table, default = list[Case](), False, frozenset[str]()
    for line in lines:
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if not line.startswith("|") or len(cells) != _COLUMNS:
            is_table = False
        elif not is_table:
            is_table = True
            _, default = _ways(cells[0], steps, frozenset())
        elif cells[0].strip("-: "):
            meaning = _LINK.sub(r"\1 (runbook \2)", cells[1]).replace("`", "")
            cases.append(Case(meaning, _ways(cells[0], steps, default)[0]))
    return tuple(cases)


def _ways(
    cell: str, steps: Mapping[str, frozenset[str]], sources: frozenset[str]
) -> tuple[tuple[tuple[Printed, ...], ...], frozenset[str]]:
    """Parse the first cell of a row into ``Case.ways`` and the steps that the cell named last."""
    ways, is_checkable = list[list[Printed]]([[]]), True
    for text, word in _WORD.findall(cell):
        if word == "or":
            ways.append([])
        elif word:
            is_checkable = is_checkable and word in _JOINING
        elif text in steps:
            sources = steps[text]
        else:
            ways[-1].append(Printed(sources, text))
    return tuple(map(tuple, ways)) if is_checkable and all(ways) else (), sources


def _is_shown(printed: Printed, outputs: Mapping[str, str]) -> bool:
    return any(
        shows(text, printed.text) for step, text in outputs.items() if step in printed.steps or not printed.steps
    )
