"""What one run knows of its stack: what was there, and what it has brought about so far."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from hermesops.engine.embedded.run.events import Step
from hermesops.engine.embedded.state.deployment import Resource


@dataclass
class Known:
    """The resources of one run, by URN.

    Attributes:
        olds: What the state has, without old halves of replacements.
        news: What the program has registered and what came of it.
        steps: What was done for components, whose end is told by their outputs.
        skipped: What the program registered, the state does not have and no target names: it was not made.
    """

    olds: dict[str, Resource] = field(default_factory=dict)
    news: dict[str, Resource] = field(default_factory=dict)
    steps: dict[str, Step] = field(default_factory=dict)
    skipped: set[str] = field(default_factory=set)

    def begin(self, resources: Iterable[Resource]) -> None:
        """Start from what the state has."""
        self.olds = {old.urn: old for old in resources if not old.delete}
