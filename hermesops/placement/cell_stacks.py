"""Cells' Pulumi stacks: what they hold, and bringing them to what the registry's rows say.

Everybody who wants a machine in a cell calls this; one at a time runs, for all rows written by then, so concurrent
wishes end up in one ``up`` and whoever waited finds its machine made.
"""

from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import replace
from typing import Any, Protocol

from hermesops.errors import RefusedError
from hermesops.model.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Preview, StackRef, UpResult

PROJECT = "fleet"
"""Pulumi project of all cells; its folder is ``pulumi/fleet``."""

MACHINE_TYPE = "justavps:index:Machine"
"""Pulumi's type of a rented machine."""


def stack_of(cell: CellName) -> StackRef:
    """The stack that holds a cell."""
    return StackRef(PROJECT, cell)


class CellRows(Protocol):
    """What the registry says a cell should be."""

    def cell_spec(self, cell: CellName) -> CellSpec:
        """Machines of all instances of the cell that are not on their way out."""

    def doomed_machines(self, cell: CellName) -> frozenset[MachineName]:
        """Machines that recorded operations want gone; nothing else may be destroyed."""


class Engine(Protocol):
    """Runs Pulumi programs; see ``hermesops.engine``."""

    async def up(
        self,
        stack: StackRef,
        program: Callable[[], Any],
        *,
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Make the stack what the program says; refuses to destroy what is not allowed."""

    async def preview(self, stack: StackRef, program: Callable[[], Any]) -> Preview:
        """What ``up`` would change."""

    async def destroy(
        self,
        stack: StackRef,
        *,
        may_destroy: Callable[[str], bool] | None = None,
        tell: Callable[[Any], None] | None = None,
    ) -> UpResult:
        """Delete everything in the stack that is allowed to go."""

    async def outputs(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's outputs, secrets masked."""

    async def export(self, stack: StackRef) -> Mapping[str, Any]:
        """The stack's state."""

    async def stacks(self, project: str) -> list[StackRef]:
        """The stacks of a project."""


class CellStacks:
    """Shows and changes cells, one run at a time each.

    Args:
        rows: The registry's side.
        engine: Runs programs.
        program: Makes a cell's program from what it should be and the machines whose protection it drops.
        alone: Waits for and holds the lease of a subject for as long as its context lasts.
        tell: Called with the engine's progress.
    """

    def __init__(
        self,
        rows: CellRows,
        engine: Engine,
        program: Callable[[CellSpec, frozenset[MachineName]], Callable[[], Any]],
        alone: Callable[[str], AbstractAsyncContextManager[Any]],
        tell: Callable[[Any], None] | None = None,
    ) -> None:
        self._rows = rows
        self._engine = engine
        self._program = program
        self._alone = alone
        self._tell = tell

    async def bring(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> UpResult | None:
        """Run the cell's program for the rows as they stand once its lease is ours.

        Args:
            cell: Which.
            still_wanted: Asked after the wait for the lease: whoever held it may have done our part.

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
            doomed = self._rows.doomed_machines(cell)
            spec = self._rows.cell_spec(cell)
            if protected := protected_machines(await self.state(cell), doomed):
                # Protection goes in a run of its own, as Pulumi wants it: what is protected is never deleted.
                kept = replace(spec, machines=(*spec.machines, *protected))
                await self._up(stack, self._program(kept, doomed), doomed)
            return await self._up(stack, self._program(spec, frozenset()), doomed)

    async def preview(self, cell: CellName) -> Preview:
        """What bringing the cell to its rows would change; changes nothing."""
        return await self._engine.preview(stack_of(cell), self._program(self._rows.cell_spec(cell), frozenset()))

    async def destroy(self, cell: CellName) -> UpResult:
        """Remove what is left of a cell without machines.

        Raises:
            RefusedError: It still holds a machine; those end with their instances.
        """
        stack = stack_of(cell)
        async with self._alone(f"stack/{stack.project}/{stack.stack}"):
            machines = machines_in(await self.state(cell))
            if machines:
                raise RefusedError(
                    f"{cell} still holds {len(machines)} machines, {', '.join(sorted(machines)[:3])} …",
                    hint="hermesops instance terminate USER ends an instance and its machine",
                )
            return await self._engine.destroy(stack, may_destroy=lambda _: False, tell=self._tell)

    async def export(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it.

        Raises:
            UsageError: There is no such cell.
        """
        return await self._engine.export(stack_of(cell))

    async def outputs(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's outputs, secrets masked."""
        return await self._engine.outputs(stack_of(cell))

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""
        return machine in machines_in(await self.state(cell))

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it; empty before its first run."""
        stack = stack_of(cell)
        return await self._engine.export(stack) if stack in await self._engine.stacks(stack.project) else {}

    async def _up(self, stack: StackRef, program: Callable[[], Any], doomed: frozenset[MachineName]) -> UpResult:
        return await self._engine.up(
            stack, program, may_destroy=lambda urn: urn.rpartition("::")[2] in doomed, tell=self._tell
        )


def machines_in(state: Mapping[str, Any]) -> Mapping[MachineName, Mapping[str, Any]]:
    """The machines that a state holds, as Pulumi records them. Pure."""
    resources = state.get("deployment", {}).get("resources", [])
    return {
        MachineName(resource["urn"].rpartition("::")[2]): resource
        for resource in resources
        if resource["type"] == MACHINE_TYPE
    }


def protected_machines(state: Mapping[str, Any], doomed: frozenset[MachineName]) -> tuple[CellMachine, ...]:
    """Doomed machines that the state still protects, as they were ordered. Pure."""
    return tuple(
        CellMachine(
            name=name,
            server_type=resource["inputs"]["server_type"],
            region=resource["inputs"]["region"],
            image_id=resource["inputs"].get("image_id"),
            owner=None,
        )
        for name, resource in machines_in(state).items()
        if name in doomed and resource.get("protect")
    )
