"""A running rollout on stderr: a picture that is redrawn on a terminal, plain lines elsewhere."""

import sys
from collections import deque
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermesops.agents.rollout.decide import NOTIFIES
from hermesops.cli import console, palette
from hermesops.cli.views.rollout import progress as progress_view
from hermesops.wire.foreign_text import quoted, unbroken

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from rich.live import Live

    from hermesops.agents.rollout.ports import Records
    from hermesops.model.ids import InstanceId
    from hermesops.model.rollout import TargetState

_LINES_KEPT = 5
_HEARD = 50
"""Lines of narration that are remembered, so that a change the runner reported is not reported again."""


@dataclass
class PlainView:
    """A line for everything that changes: how far the rollout is, then who and what."""

    _seen: "dict[InstanceId, TargetState]" = field(default_factory=dict)
    _state: str = ""
    _told: "deque[str]" = field(default_factory=lambda: deque(maxlen=_HEARD))

    def report(self, line: str) -> None:
        """Show narration of the runner; a line that repeats the last one is left out."""
        what = _without_place(line)
        if what.startswith(NOTIFIES):
            return
        if not self._told or what != self._told[-1]:
            console.say(unbroken(line))
        self._told.append(what)

    def show(self, records: "Records") -> None:
        """Print what changed since the last time."""
        from hermesops.agents.rollout.reports.progress import change_lines, progress_line

        rollout, targets = records.rollout, records.targets
        if not self._state:
            console.say(f"rollout {rollout.id} deploys {rollout.release} to {len(targets)} instances")
            self._seen = {target.id: target.state for target in targets}
        news = change_lines(target for target in targets if self._seen.get(target.id) is not target.state)
        self._seen = {target.id: target.state for target in targets}
        if rollout.state.value != self._state:
            news.append(_state_line(records))
            self._state = rollout.state.value
        for what in news:
            if what not in self._told:
                console.say(unbroken(f"{progress_line(targets)}: {what}"))


class LiveView:
    """The whole rollout at one glance, with the last lines of narration below it."""

    def __init__(self, live: "Live", now: "Callable[[], datetime]") -> None:
        self._live = live
        self._now = now
        self._told: deque[str] = deque(maxlen=_LINES_KEPT)
        self._records: Records | None = None

    def report(self, line: str) -> None:
        """Show narration of the runner; a line that repeats the last one is left out."""
        if _without_place(line).startswith(NOTIFIES):
            return
        if not self._told or line != self._told[-1]:
            self._told.append(line)
        self._draw()

    def show(self, records: "Records") -> None:
        """Redraw the rollout as it is now."""
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

        if self._records is None:
            return [unbroken(line) for line in self._told]
        size = self._live.console.size
        rollout_progress = progress_of(self._records, self._now())
        # A terminal scrolls when its last row is written to, and then nothing can be drawn over.
        return progress_view.screen(
            self._records, rollout_progress, list(self._told), width=size.width, height=size.height - 1
        )


def _without_place(line: str) -> str:
    """A line of narration without how far the rollout was then."""
    return line.partition(": ")[2] or line


def _state_line(records: "Records") -> str:
    """What the rollout does from now on, by whom and why."""
    from hermesops.agents.rollout.events import StateChanged
    from hermesops.model.rollout import RolloutState

    rollout = records.rollout
    if rollout.state is RolloutState.PENDING:
        return f"begun by {rollout.who}: {quoted(rollout.reason)}"
    changed = records.newest(StateChanged)
    who = f" by {changed.event.who}" if changed and changed.event.who else ""
    return f"the rollout is {rollout.state.replace('_', ' ')}{who}: {rollout.reason}"


View = PlainView | LiveView


@contextmanager
def view(now: "Callable[[], datetime]") -> "Iterator[View]":
    """A picture where stderr is a terminal that can be drawn on, else lines."""
    if not sys.stderr.isatty() or console.is_quiet():
        yield PlainView()
        return
    from rich.console import Console
    from rich.live import Live

    screen = Console(stderr=True)
    if screen.is_dumb_terminal:
        yield PlainView()
        return
    with Live(console=screen, refresh_per_second=4) as live:
        yield LiveView(live, now)
