"""A running rollout on stderr: a picture that is redrawn on a terminal, plain lines elsewhere."""

import re
import sys
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermesops.agents.rollout.steps.decide import NOTIFIES, PAUSED
from hermesops.base.narration import counted
from hermesops.cli import console
from hermesops.cli.printing import palette
from hermesops.cli.views.rollout import progress as progress_view
from hermesops.wire.foreign_text import quoted, unbroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from rich.live import Live

    from hermesops.agents.rollout.ports import Records
    from hermesops.agents.rollout.reports.durations import Durations
    from hermesops.model.ids import InstanceId
    from hermesops.model.rollout.records import Rollout, TargetState

    DurationsBefore = Callable[[Rollout], Durations]
    """Reads the durations of the rollouts before one."""

_LINES_KEPT = 5
_HEARD = 50
"""Lines of narration that are remembered, so that a change the runner reported is not reported again."""

_PLACE = re.compile(r"(?:not started|stage \d+/\d+, batch \d+/\d+), \d+ of \d+ healthy(?:, \d+ \w+)*: ")
"""The position at the beginning of the runner's narration."""


@dataclass
class PlainView:
    """A line for each change: the position of the rollout, then user and state."""

    durations_before: "DurationsBefore"
    _states: "dict[InstanceId, TargetState]" = field(default_factory=dict)
    _state: str = ""
    _reported: "deque[str]" = field(default_factory=lambda: deque(maxlen=_HEARD))

    def report(self, line: str) -> None:
        """Show narration of the runner; a line that repeats the last one is left out."""
        what = _without_place(line)
        if what.startswith((NOTIFIES, PAUSED, _RUNS)):
            return
        if not self._reported or what != self._reported[-1]:
            console.say(unbroken(line))
        self._reported.append(what)

    def show(self, records: "Records") -> None:
        """Print the changes since the last time."""
        from hermesops.agents.rollout.reports.progress import change_lines, progress_line

        rollout, targets = records.rollout, records.targets
        if not self._state:
            console.say(unbroken(_title(records, self.durations_before(rollout))))
            self._states = {target.id: target.state for target in targets}
            self._state = rollout.state.value if rollout.state.value in _QUIET else ""
        news = change_lines(target for target in targets if self._states.get(target.id) is not target.state)
        self._states = {target.id: target.state for target in targets}
        if rollout.state.value != self._state:
            is_news = (self._state, rollout.state.value) != _QUIET
            news += [_state_line(records)] if is_news else []
            self._state = rollout.state.value
        for what in news:
            if what not in self._reported:
                console.say(unbroken(f"{progress_line(targets)}: {what}"))


class LiveView:
    """The whole rollout at one glance, with the last lines of narration below it."""

    def __init__(self, live: "Live", now: "Callable[[], datetime]", durations_before: "DurationsBefore") -> None:
        self._live = live
        self._now = now
        self._durations_before = durations_before
        self._usual: Durations | None = None
        self._reported: deque[tuple[datetime, str]] = deque(maxlen=_LINES_KEPT)
        self._records: Records | None = None

    def report(self, line: str) -> None:
        """Show narration of the runner with its time; a line that repeats the last one is left out."""
        what = _without_place(line)
        if what.startswith((NOTIFIES, PAUSED, _RUNS)):
            return
        if not self._reported or what != self._reported[-1][1]:
            self._reported.append((self._now(), what))
        self._draw()

    def show(self, records: "Records") -> None:
        """Redraw the rollout as it is now."""
        if self._records is None:
            self._usual = self._durations_before(records.rollout)
        self._records = records
        self._draw()

    def _draw(self) -> None:
        from rich.text import Text

        rows = [palette.drawn(row) for row in self._rows()]
        for row in rows:
            row.truncate(self._live.console.width, overflow="ellipsis")
        self._live.update(Text("\n").join(rows))

    def _rows(self) -> list[str]:
        from hermesops.agents.rollout.reports.progress import progress_of

        narration = [f"{at:%H:%M:%S} {what}" for at, what in self._reported]
        if self._records is None:
            return [unbroken(line) for line in narration]
        size = self._live.console.size
        rollout_progress = progress_of(self._records, self._now())
        # A terminal scrolls when its last row is written to, and then nothing can be drawn over.
        return progress_view.screen(
            self._records, rollout_progress, narration, self._usual, width=size.width, height=size.height - 1
        )


_QUIET = ("pending", "running")
"""A change of state that says nothing: it follows at once."""

_RUNS = "the rollout is running: "
"""The first decision of each rollout, which says nothing."""


def _without_place(line: str) -> str:
    """A line of narration without the position of the rollout."""
    return line[place.end() :] if (place := _PLACE.match(line)) else line


def _title(records: "Records", usual: "Durations") -> str:
    """The rollout at a glance: release, targets, author, reason, and durations of earlier ones."""
    from hermesops.agents.rollout.reports.progress import state_since

    rollout, since = records.rollout, state_since(records)
    words = f"rollout {rollout.id} deploys {rollout.release} to {counted(len(records.targets), 'instance')}"
    if rollout.state.value in _QUIET:
        words += f", begun by {since.who}: {quoted(since.why)}"
    if usual.change_s and usual.rollout_s:
        words += (
            f"; before, an agent took {progress_view.span(usual.change_s)} and a rollout "
            f"{progress_view.span(usual.rollout_s)}"
        )
    return words


def _state_line(records: "Records") -> str:
    """The new state of the rollout, its author and its reason."""
    from hermesops.agents.rollout.records.events import StateChanged

    rollout = records.rollout
    changed = records.newest(StateChanged)
    who = f" by {changed.event.who}" if changed and changed.event.who else ""
    return f"the rollout is {rollout.state.replace('_', ' ')}{who}: {rollout.reason}"


View = PlainView | LiveView


@contextmanager
def view(now: "Callable[[], datetime]", durations_before: "DurationsBefore") -> "Iterator[View]":
    """A picture where stderr is a terminal that can be drawn on, else lines."""
    if not sys.stderr.isatty() or console.is_quiet():
        yield PlainView(durations_before)
        return
    from rich.console import Console
    from rich.live import Live

    screen = Console(stderr=True)
    if screen.is_dumb_terminal:
        yield PlainView(durations_before)
        return
    with Live(console=screen, refresh_per_second=4) as live:
        yield LiveView(live, now, durations_before)
