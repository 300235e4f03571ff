"""Follow a log for as long as somebody reads it: connect again where the connection ends, without repeating lines."""

import re
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TypeVar

from hermesops.base.narration import Reporter
from hermesops.base.waiting import pause
from hermesops.errors import UnavailableError, UnknownOutcomeError
from hermesops.vendor.channel import CommandExpiredError

T = TypeVar("T")

_SHORTEST_S, _LONGEST_S = 1.0, 30.0
"""Seconds before the first attempt to connect again, and before each of many."""

_REMEMBERED = 10_000
"""Lines of one second that are recognised; of more than that some may be shown twice."""

_STAMP = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:[+-]\d{4}|Z)")
"""The beginning of a line of ``journalctl -o short-iso``."""

Connect = Callable[[int | None, datetime | None], AsyncGenerator[str, None]]
"""Yields the newest lines, so many (``None``: all) and none older than a moment, then new ones, until it ends."""


@dataclass
class Place:
    """How far a log was shown: the second of its last line, and the lines of that second.

    A line without a time belongs to the one before it.

    Attributes:
        gap: The second from which on lines were lost, as the log read again begins after it; empty for none.
    """

    stamp: str = ""
    gap: str = ""
    _lines: Counter[str] = field(default_factory=Counter)
    _repeated: Counter[str] = field(default_factory=Counter)

    @property
    def since(self) -> datetime | None:
        """The beginning of what is not shown yet; ``None`` before the first line that has a time."""
        return datetime.fromisoformat(self.stamp) if self.stamp else None

    def again(self) -> None:
        """The log is read again from ``since`` on: lines of that second are expected a second time."""
        self._repeated = self._lines.copy()

    def is_new(self, line: str) -> bool:
        """Take the next line; whether it was not shown yet."""
        stamp = match[0] if (match := _STAMP.match(line)) else self.stamp
        if stamp != self.stamp:
            # None of the lines that were shown came again: the log no longer reaches back to them.
            self.gap = self.stamp if self._repeated and self._repeated == self._lines else ""
            self.stamp, self._lines, self._repeated = stamp, Counter(), Counter()
        elif self._repeated[line] > 0:
            self._repeated[line] -= 1
            return False
        if self._lines.total() < _REMEMBERED:
            self._lines[line] += 1
        return True


async def follow(
    connect: Connect, *, name: str, most: int, since: datetime | None, report: Reporter
) -> AsyncGenerator[str, None]:
    """Yield the newest lines of a log and then new ones, until the caller stops.

    A connection that breaks is made again, after one second, then two, up to thirty, and the operator is told. Its
    time limit is no news. All lines that came meanwhile follow; if the log has lost some of them, the operator is told.

    Args:
        name: Of the log, for the operator.
        most: Lines of before.
        since: No line of before that; ``None`` for as far back as ``most`` reaches.
        report: Takes the narration.

    Raises:
        UnavailableError: The first connection fails before its first line.
        RefusedError: Connecting again cannot help.
    """
    place, wait_s, is_broken, has_begun = Place(), _SHORTEST_S, False, False
    while True:
        problem = "its connection ended"
        try:
            async with aclosing(connect(None if place.since else most, place.since or since)) as lines:
                async for line in lines:
                    if is_broken:
                        report(f"{name}: connected again")
                    is_broken, has_begun = False, True
                    if place.is_new(line):
                        if place.gap:
                            report(f"{name}: it lost lines between {place.gap} and {place.stamp}")
                            place.gap = ""
                        wait_s = _SHORTEST_S
                        yield line
        except CommandExpiredError:
            has_begun, problem = True, ""
        except (UnavailableError, UnknownOutcomeError) as error:
            if not has_begun:
                raise
            problem = error.message
        place.again()
        if problem:
            report(f"{name}: {problem}; connecting again in {wait_s:g} s")
            is_broken = True
            await pause(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)


async def poll(
    ask: Callable[[datetime, int], AsyncIterator[tuple[datetime, T]]],
    *,
    name: str,
    begin: datetime,
    first: int,
    most: int,
    every_s: float,
    overlap: timedelta,
    report: Reporter,
) -> AsyncGenerator[T, None]:
    """Yield entries of a log that can only be asked for, again and again, each once, until the caller stops.

    If more entries came than one answer holds, the operator is told that some were left out.

    Args:
        ask: Yields the newest entries since a moment, so many at most, oldest first.
        begin: The moment for the first time.
        first: Entries of before.
        most: Entries of each later answer.
        every_s: Seconds between two questions.
        overlap: Late entries are found that are older than the newest one by at most this.

    Raises:
        HermesError: The first question fails.
    """
    shown: dict[tuple[datetime, T], None] = {}
    newest, wait_s, is_first = begin, every_s, True
    while True:
        try:
            entries = [entry async for entry in (ask(begin, first) if is_first else ask(newest - overlap, most))]
        except (UnavailableError, UnknownOutcomeError) as error:
            if is_first:
                raise
            report(f"{name}: {error.message}; asked again in {wait_s:g} s")
            await pause(wait_s)
            wait_s = min(2 * wait_s, _LONGEST_S)
            continue
        if not is_first and len(entries) >= most and entries[0][0] > newest:
            left_out = f"between {newest:%H:%M:%S} and {entries[0][0]:%H:%M:%S} UTC"
            report(f"{name}: more than {most} lines came at once; those {left_out} were left out")
        for entry in entries:
            if entry not in shown:
                shown[entry] = None
                yield entry[1]
        newest, wait_s, is_first = max([newest, *(at for at, _ in entries)]), every_s, False
        shown = {entry: None for entry in shown if entry[0] >= newest - overlap}
        await pause(every_s)
