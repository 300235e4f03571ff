"""The state of cells' stacks when it has to be mended by hand: copies, putting one back, importing one.

Whoever mends holds the cell's lease, so that no run is under way, and it is written down.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from hermesops.cells.naming import lease_of, stack_of
from hermesops.model.ids import CellName
from hermesops.model.stack import StackRef, StateVersion
from hermesops.registry import Registry


class States(Protocol):
    """Keeps states; see ``hermesops.engine``."""

    async def state_versions(self, stack: StackRef, *, limit: int) -> Sequence[StateVersion]:
        """The newest copies of a stack's state, newest first."""

    async def rollback_state(self, stack: StackRef, version: str = "") -> StateVersion:
        """Put a copy in the state's place; empty: the newest sound one that differs."""

    async def import_state(self, stack: StackRef, document: Mapping[str, Any]) -> None:
        """Replace the state by an exported one."""


class CellStates:
    """Mends the states of cells.

    Args:
        states: The engine.
        audit: The registry.
        hold_lease: Waits for and holds the lease of a subject for as long as its context lasts.
    """

    def __init__(
        self, states: States, audit: Registry, hold_lease: Callable[[str], AbstractAsyncContextManager[Any]]
    ) -> None:
        self._states = states
        self._audit = audit
        self._hold_lease = hold_lease

    async def versions(self, cell: CellName, *, limit: int) -> Sequence[StateVersion]:
        """The newest copies of a cell's state, newest first."""
        return await self._states.state_versions(stack_of(cell), limit=limit)

    async def restore(self, cell: CellName, version: str, *, why: str) -> StateVersion:
        """Put a copy of a cell's state in its place; machines stay as they are.

        Raises:
            UsageError: There is no such copy.
            RefusedError: It is damaged, or there is no sound one.
        """
        async with self._hold_lease(lease_of(cell)):
            put = await self._states.rollback_state(stack_of(cell), version)
            after = {"version": put.version, "resources": put.resources}
            self._audit.audit.append("state_rolled_back", f"cell/{cell}", why=why, after=after)
            return put

    async def take(self, cell: CellName, document: Mapping[str, Any], *, why: str) -> None:
        """Replace a cell's state by an exported one; machines stay as they are.

        Raises:
            UsageError: It is no exported state.
            RefusedError: It is another cell's, or contradicts itself.
        """
        async with self._hold_lease(lease_of(cell)):
            await self._states.import_state(stack_of(cell), document)
            self._audit.audit.append("state_imported", f"cell/{cell}", why=why)
