"""Applies a cell's stack, as the workflow of an operation.

It does not observe whether that is done: the engine does, and a run too many changes nothing.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from hermesops.agents.cells.changes.guard import NO_OVERRIDES, Overrides
from hermesops.model.ids import CellName, MachineName
from hermesops.model.operation import Done
from hermesops.model.stack import ChangeKind, UpResult
from hermesops.store.operations.kinds.fleet import StackUpIntent


def subject_of(cell: CellName) -> str:
    """The subject of a cell's operations; its stack has a lease of its own."""
    return f"cell/{cell}"


@dataclass(frozen=True)
class UpRequest:
    """A request for a cell; the intent of the operation's row.

    Attributes:
        only: The machines it is about; none means all.
        named: Changes allowed beyond the limits.
        saved: The file of a signed preview, which is applied exactly; empty for none.
        approval: The file with which another operator approved that preview; empty for none.
        reason: Why it is wanted; ``None`` for no reason.
    """

    cell: CellName
    only: frozenset[MachineName] = frozenset()
    named: Overrides = NO_OVERRIDES
    saved: str = ""
    approval: str = ""
    reason: str | None = None

    def to_intent(self) -> StackUpIntent:
        """Turn the request into the intent of its operation."""
        return StackUpIntent(
            cell=self.cell,
            only=self.only,
            named=self.named.machines,
            share=self.named.share,
            budget=self.named.budget,
            saved=self.saved,
            approval=self.approval,
            reason=self.reason,
        )

    @classmethod
    def of(cls, intent: StackUpIntent) -> "UpRequest":
        """Read the request from the intent of its operation."""
        named = Overrides(intent.named, intent.share, intent.budget)
        return cls(intent.cell, intent.only, named, intent.saved, intent.approval, intent.reason)


@dataclass(frozen=True)
class Apply:
    """Step: run the Pulumi program of the cell."""


@dataclass
class StackUp:
    """Workflow of one ``up``: runs the program of a cell once, and ends."""

    cell: CellName
    up: Callable[[], Awaitable[UpResult]]
    result: UpResult | None = field(default=None, init=False)

    async def observe(self) -> UpResult | None:
        """Report whether this run has applied the program already."""
        return self.result

    def decide(self, observation: UpResult | None) -> Apply | Done:
        """Apply the program, unless this run has a result already."""
        return Apply() if observation is None else Done(f"{self.cell} matches its rows: {summary(observation)}")

    def describe(self, step: Apply, observation: UpResult | None) -> str:  # noqa: ARG002 - the loop's signature
        """Describe the step in one line, for narration and for the operation's row."""
        return f"applying {self.cell}"

    async def do(self, step: Apply, observation: UpResult | None) -> None:  # noqa: ARG002 - as above
        """Run the program, which changes only resources that differ; keeps the result."""
        self.result = await self.up()


def summary(result: UpResult) -> str:
    """How many resources were created, updated … in words. Pure."""
    kinds = [change.kind for change in result.changes if change.kind is not ChangeKind.SAME]
    counts = [f"{kinds.count(kind)} {kind.value}" for kind in dict.fromkeys(kinds)]
    return ", ".join(counts) or "nothing changed"
