"""Which slow tests run with this commit: those that take turns are divided by their cost, and each run has one part.

``@pytest.mark.turns(seconds)`` says what a worker needs, alone on two cores, for the marked function with all its
cases, or, as a module's ``pytestmark``, for the whole module with its setup. With ``each=True``, each case has a turn
of its own. All parts have about the same size, so one more slow test adds to the rotation, not to a run.

A test for SQLite and PostgreSQL runs with one of them, and with the other one in the next run of another commit. ``make
soak`` runs all of them, with both.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from zlib import crc32

from pytest import Item, StashKey  # noqa: PT013 - types

BUDGETS = {"machines": 160.0, "others": 160.0}
"""Seconds of one part. What boots machines runs in one worker, the rest in all, beside what always runs."""


WORLDS = "tests/e2e/"
"""Where a module's tests share a world: in two workers they would make two."""

DATABASES = ("sqlite", "postgresql")
"""Values of the fixture ``registry_url``."""

TURNS = StashKey[list[str]]()
"""The lines that say which part a run was."""

_TURN = StashKey["Turn | None"]()


@dataclass(frozen=True, order=True)
class Turn:
    """Tests that run together or not at all.

    Attributes:
        seconds: What a worker needs for them.
        name: The module, function or case.
    """

    seconds: float
    name: str


@dataclass(frozen=True)
class Part:
    """The turns of one run.

    Attributes:
        number: Which part it is, from 1.
        parts: How many there are.
        seconds: Its size.
        whole_s: The size of all parts.
        names: Its turns.
    """

    number: int
    parts: int
    seconds: float
    whole_s: float
    names: frozenset[str]

    def __str__(self) -> str:
        return f"part {self.number} of {self.parts}, {self.seconds:.0f} of {self.whole_s:.0f} s"


def turn_of(item: Item) -> Turn | None:
    """The turn that a test belongs to; ``None`` where it always runs."""
    if _TURN not in item.stash:
        item.stash[_TURN] = _marked(item)
    return item.stash[_TURN]


def _marked(item: Item) -> Turn | None:
    for node, mark in item.iter_markers_with_node("turns"):
        is_case = node is item and mark.kwargs.get("each", False)
        name = item.nodeid if is_case else node.nodeid.partition("[")[0]
        return Turn(float(mark.args[0]), name)
    return None


def is_of_machines(item: Item) -> bool:
    """Whether it runs in the one worker that boots machines."""
    return any(map(item.get_closest_marker, ("machines", "qemu")))


def slowest_by_file(items: Iterable[Item]) -> dict[Path, float]:
    """The seconds of each file's largest turn; 0 where all its tests always run."""
    slowest: dict[Path, float] = {}
    for item in items:
        turn = turn_of(item)
        slowest[item.path] = max(slowest.get(item.path, 0.0), turn.seconds if turn else 0.0)
    return slowest


def group_of(item: Item) -> str | None:
    """The tests with which it has to run in one worker; ``None`` where it may run in any."""
    for mark in ("machines", "qemu"):
        if item.get_closest_marker(mark):
            return mark
    turn = turn_of(item)
    if turn and "::" not in turn.name:
        return turn.name
    module = item.nodeid.partition("::")[0]
    return module if module.startswith(WORLDS) else None


def take_turns(items: list[Item], number: int) -> list[str]:
    """Remove the tests whose turn it is not; returns a line about each part that is left.

    Args:
        items: All tests; is changed.
        number: Chooses the parts.
    """
    turns = {turn for item in items if (turn := turn_of(item))}
    of_machines = {turn for item in items if is_of_machines(item) and (turn := turn_of(item))}
    parts = {
        "machines": part(of_machines, BUDGETS["machines"], number),
        "others": part(turns - of_machines, BUDGETS["others"], number),
    }
    names = frozenset[str]().union(*(chosen.names for chosen in parts.values()))
    items[:] = [item for item in items if not (turn := turn_of(item)) or turn.name in names]
    return [f"tests that take turns, {kind}: {chosen}" for kind, chosen in parts.items()]


def choose_databases(items: list[Item], number: int) -> str:
    """Remove one of the two cases of each test that has one for SQLite and one for PostgreSQL; returns a line about it.

    Args:
        items: All tests; is changed.
        number: Chooses the databases: half of the tests have SQLite, the others PostgreSQL.
    """
    pairs: dict[str, dict[str, Item]] = {}
    for item in items:
        if (database := _database_of(item)) in DATABASES:
            pairs.setdefault(item.nodeid.replace(database, ""), {})[database] = item
    both = {name: cases for name, cases in pairs.items() if len(cases) == len(DATABASES)}
    left_out = {cases[DATABASES[(crc32(name.encode()) + number) % 2]].nodeid for name, cases in both.items()}
    items[:] = [item for item in items if item.nodeid not in left_out]
    return f"tests with one database of two, the other one in another run: {len(left_out)}"


def _database_of(item: Item) -> str:
    return str(getattr(item, "callspec", None) and item.callspec.params.get("registry_url", ""))  # type: ignore[attr-defined]


def part(turns: Iterable[Turn], budget_s: float, number: int) -> Part:
    """The part of a run.

    Args:
        turns: All of them.
        budget_s: How large a part may be; a turn that is larger is a part of its own.
        number: Any; another one chooses another part.
    """
    parts = _parted(sorted(set(turns), reverse=True), budget_s)
    at = number % len(parts)
    chosen = parts[at]
    whole_s = sum(turn.seconds for each in parts for turn in each)
    return Part(at + 1, len(parts), sum(t.seconds for t in chosen), whole_s, frozenset(t.name for t in chosen))


def _parted(turns: Sequence[Turn], budget_s: float) -> list[list[Turn]]:
    """The fewest parts of nearly equal size within the budget, and those of one turn that is larger."""
    larger = [[turn] for turn in turns if turn.seconds > budget_s]
    others = [turn for turn in turns if turn.seconds <= budget_s]
    fewest = max(0 if larger and not others else 1, int(_size(others) / budget_s))
    return [*larger, *next(parts for n in count(fewest) if _fits(parts := _in_parts(others, n), budget_s))]


def _fits(parts: list[list[Turn]], budget_s: float) -> bool:
    return all(_size(turns) <= budget_s for turns in parts)


def _in_parts(turns: Sequence[Turn], parts: int) -> list[list[Turn]]:
    """The longest first, each to the part that is the shortest so far."""
    bins: list[list[Turn]] = [[] for _ in range(parts)]
    sizes = [0.0] * parts
    for turn in turns:
        shortest = sizes.index(min(sizes))
        bins[shortest].append(turn)
        sizes[shortest] += turn.seconds
    return bins


def _size(turns: Iterable[Turn]) -> float:
    return sum(turn.seconds for turn in turns)
