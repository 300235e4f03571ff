"""How far the build of an image is: each step with the time left, from the seconds of the last image of that name."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.base.narration import Reporter
from hermesops.base.progress import ProgressLine, duration

STEPS = ("machine", "roles", "slot", "prepare", "clean", "save", "boot", "prove")
"""Steps of a build, in their order; ``slot`` only where the image has an agent."""


@dataclass(frozen=True)
class BuildProgress:
    """Narrates the steps of a build.

    Attributes:
        steps: Those of this build.
        last: Seconds of each step of the last build; empty where none is known.
    """

    image: str
    steps: Sequence[str]
    last: Mapping[str, float]
    report: Reporter

    def begin(self, step: str, words: str) -> None:
        """Report that a step begins, which one of how many it is, and the time left as the last build took it."""
        number = self.steps.index(step)
        before = [self.last.get(name, 0.0) for name in self.steps]
        whole, left = sum(before), sum(before[number:])
        time_left = f", about {duration(left)} left, took {duration(whole)} last time" if whole else ""
        line = f"image {self.image}: step {number + 1} of {len(self.steps)}{time_left}: {words}"
        self.report(ProgressLine(line, share=1 - left / whole if whole else None))
