"""Brings a cell's stack to what its registry rows say.

Everybody who wants a machine in a cell calls this; one at a time runs, for all rows written by then, so concurrent
wishes end up in one ``up`` and whoever waited finds its machine made.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hermesops.model.cell import CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import StackRef, UpResult

PROJECT = "fleet"
"""Pulumi project of all cells; its folder is ``pulumi/fleet``."""


def stack_of(cell: CellName) -> StackRef:
    """The stack that holds a cell."""
    return StackRef(PROJECT, cell)


class CellRows(Protocol):
    """What the registry says a cell should be."""

    def cell_spec(self, cell: CellName) -> CellSpec:
        """Machines of all instances of the cell that are not on their way out."""

    def doomed_machines(self, cell: CellName) -> frozenset[MachineName]:
        """Machines that recorded operations want gone; nothing else may be destroyed."""


class Stacks(Protocol):
    """Runs a cell's program."""

    async def up(
        self, stack: StackRef, spec: CellSpec, *, may_destroy: frozenset[str], tell: Callable[[str], None]
    ) -> UpResult:
        """Make the stack what the spec says; refuses to destroy what is not named."""


class Growth:
    """Changes cells, one run at a time each.

    Args:
        rows: The registry's side.
        stacks: The engine's side.
        alone: Waits for and holds the lease of a subject for as long as its context lasts.
    """

    def __init__(
        self, rows: CellRows, stacks: Stacks, alone: Callable[[str], AbstractAsyncContextManager[Any]]
    ) -> None:
        self._rows = rows
        self._stacks = stacks
        self._alone = alone

    async def bring(
        self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]], tell: Callable[[str], None]
    ) -> UpResult | None:
        """Run the cell's program for the rows as they stand once its lease is ours.

        Args:
            cell: Which.
            still_wanted: Asked after the wait for the lease: whoever held it may have done our part.
            tell: Narration.

        Returns:
            What changed, or ``None`` when nothing was wanted any more.

        Raises:
            RefusedError: It would destroy a machine that no recorded operation names.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        stack = stack_of(cell)
        async with self._alone(f"stack/{stack.project}/{stack.stack}"):
            if not await still_wanted():
                return None
            return await self._stacks.up(
                stack,
                self._rows.cell_spec(cell),
                may_destroy=frozenset(self._rows.doomed_machines(cell)),
                tell=tell,
            )
