"""How far a long step is: a count, its total and the time left, from how it went last time on this computer."""

import json
import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Self

DURATIONS = "durations.json"
"""Name of the file of an environment that keeps durations."""

_MOST_NAMES = 100
"""Steps that are remembered."""


class ProgressLine(str):
    """A line of narration about a long step; on a terminal it takes the place of the one before it.

    Attributes:
        share: How much of it is done, 0 to 1; ``None`` where the total is not known.
        has_ended: Whether this is its last line.
    """

    __slots__ = ("has_ended", "share")
    share: float | None
    has_ended: bool

    def __new__(cls, text: str, *, share: float | None = None, has_ended: bool = False) -> Self:
        """Create a line of progress; ``share`` is the done part of 1, ``None`` if unknown."""
        line = super().__new__(cls, text)
        line.share, line.has_ended = share, has_ended
        return line


@dataclass(frozen=True)
class Past:
    """The last time that a step was done to its end: seconds, and how many parts it had."""

    seconds: float
    count: int


@dataclass(frozen=True)
class Durations:
    """Durations of long steps on this computer, in a file. It may be lost: then nothing is known of earlier times."""

    file: Path

    def last(self, name: str) -> Past | None:
        """The last time; ``None`` where none is known."""
        try:
            entry = self._read()[name]
            past = Past(float(entry["seconds"]), int(entry["count"]))
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return past if past.seconds > 0 and past.count > 0 else None

    def note(self, name: str, past: Past) -> None:
        """Remember one; where the disk takes no file it is not remembered."""
        entries = {**{key: entry for key, entry in self._read().items() if key != name}, name: asdict(past)}
        text = json.dumps(dict([*entries.items()][-_MOST_NAMES:]))
        beside = self.file.with_name(f".{self.file.name}.{os.getpid()}")
        with suppress(OSError):
            self.file.parent.mkdir(parents=True, exist_ok=True)
            beside.write_text(text, encoding="utf-8")
            beside.replace(self.file)

    def _read(self) -> dict[str, Any]:
        try:
            entries = json.loads(self.file.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return entries if isinstance(entries, dict) else {}


@dataclass
class Progress:
    """One long step that is being done. Safe for several threads.

    Args:
        what: Its name, for the operator and for ``durations``.
        unit: Name of its parts, in the plural.
        durations: Where the last time is kept; ``None`` for nowhere.
        clock: Seconds, monotonic.
        total: Number of its parts where that is known beforehand; 0: as many as last time.
    """

    what: str
    unit: str
    report: Callable[[str], None]
    durations: Durations | None = None
    clock: Callable[[], float] = time.monotonic
    total: int = 0
    count: int = field(default=0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False, repr=False)

    def __post_init__(self) -> None:
        """Start the clock, and read the duration of the last run."""
        self._began = self.clock()
        self._past = self.durations.last(self.what) if self.durations else None

    def step(self, now: str) -> None:
        """Report that another part of it begins.

        Args:
            now: What is done now, in a few words.
        """
        with self._lock:
            self.count += 1
            self.report(self.line(now))

    def line(self, now: str) -> ProgressLine:
        """Return the line that shows the progress: count, elapsed or remaining time, and the present item."""
        past, count = self._past, self.count
        total = self.total or (past.count if past else 0)
        is_of_total = total > 0 and count <= total
        of = f"{count} of {total} {self.unit}" if is_of_total else f"{count} {self.unit}"
        share = count / total if is_of_total else None
        if past is None or share is None:
            elapsed = duration(self.clock() - self._began)
            return ProgressLine(f"{self.what}: {of}, {elapsed} so far: {now}", share=share)
        expected = past.seconds * total / past.count
        left, before = duration(expected * (1 - share)), duration(past.seconds)
        return ProgressLine(f"{self.what}: {of}, about {left} left, took {before} last time: {now}", share=share)

    def end(self) -> None:
        """Report that it has ended, and remember how long it took."""
        seconds = self.clock() - self._began
        if self.durations and self.count and not self._is_rest():
            self.durations.note(self.what, Past(seconds, self.count))
        self.report(ProgressLine(f"{self.what}: {self.count} {self.unit} in {duration(seconds)}", has_ended=True))

    def _is_rest(self) -> bool:
        """Whether it only finished what an earlier one had begun: that says nothing about the next time."""
        return self._past is not None and 2 * self.count < self._past.count


def duration(seconds: float) -> str:
    """A span in one unit, as ``40 s`` or ``3 min``."""
    if seconds < 90:  # noqa: PLR2004 - from there on minutes say enough
        return f"{max(0.0, seconds):.0f} s"
    return f"{seconds / 60:.0f} min"
