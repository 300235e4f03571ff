"""What an operator sees while a rollout goes on: a picture that is drawn anew on a terminal, plain lines elsewhere."""

import sys
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from hermesops.cli import console, render_outlook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from datetime import datetime

    from rich.live import Live

    from hermesops.model.ids import InstanceId
    from hermesops.model.rollout import TargetState
    from hermesops.rollout.ports import Records

_LINES_KEPT = 5


@dataclass
class PlainView:
    """A line for everything that changes."""

    _seen: "dict[InstanceId, TargetState]" = field(default_factory=dict)
    _state: str = ""
    _said: str = ""

    def tell(self, line: str) -> None:
        """Narration of the runner's; what it waits for is said once."""
        if line != self._said:
            console.say(line)
        self._said = line

    def show(self, records: "Records") -> None:
        """Say what is different from the last time."""
        if not self._state:
            self._seen = {target.id: target.state for target in records.targets}
        for target in records.targets:
            if self._seen.get(target.id) is not target.state:
                console.say(render_outlook.target_line(target))
                self._seen[target.id] = target.state
        state = records.rollout.state.value
        if state != self._state:
            console.say(f"rollout {records.rollout.id} is {state.replace('_', ' ')}: {records.rollout.reason}")
            self._state = state


class LiveView:
    """The whole rollout at one glance.

    Args:
        live: Draws it.
        now: The time.
    """

    def __init__(self, live: "Live", now: "Callable[[], datetime]") -> None:
        self._live = live
        self._now = now
        self._told: list[str] = []
        self._picture: list[str] = []

    def tell(self, line: str) -> None:
        """Narration of the runner's."""
        self._told = [*self._told, line][-_LINES_KEPT:]
        self._draw()

    def show(self, records: "Records") -> None:
        """Draw it as it is now."""
        from hermesops.rollout.outlook import outlook_of

        self._picture = render_outlook.picture(records, outlook_of(records, self._now()))
        self._draw()

    def _draw(self) -> None:
        from rich.text import Text

        self._live.update(Text("\n".join([*self._picture, "", *self._told])))


View = PlainView | LiveView


@contextmanager
def view(now: "Callable[[], datetime]") -> "Iterator[View]":
    """What fits the terminal: a picture, or lines."""
    if not sys.stderr.isatty() or console.is_quiet():
        yield PlainView()
        return
    from rich.console import Console
    from rich.live import Live

    with Live(console=Console(stderr=True), refresh_per_second=4) as live:
        yield LiveView(live, now)
