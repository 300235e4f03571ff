"""Looks at cells' Pulumi stacks: what they hold, and what a run would change. It must change nothing."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from hermesops.cells.changes.preview import ChangePreview, change_preview_of
from hermesops.cells.naming import stack_of
from hermesops.cells.ports import Engine, Programs
from hermesops.cells.stack.state import kept, machines_in, made_anew, protected_machines
from hermesops.model.cell import CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef
from hermesops.model.unknown_name import unknown_name
from hermesops.registry import Registry

NONE: frozenset[MachineName] = frozenset()


@dataclass(frozen=True)
class CellObservation:
    """What rows and state say of a cell at one moment."""

    spec: CellSpec
    machines_to_delete: frozenset[MachineName]
    resized: frozenset[MachineName]
    state: Mapping[str, Any]


class CellState:
    """Shows cells.

    Args:
        registry: The registry's side.
        engine: Runs programs.
        programs: What it runs.
    """

    def __init__(self, registry: Registry, engine: Engine, programs: Programs) -> None:
        self._registry = registry
        self._engine = engine
        self._programs = programs

    async def preview(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> Preview:
        """What ``up`` would change, and what it would have to destroy, allowed or not; changes nothing.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
        """
        return (await self.change_preview(cell, only=only)).preview

    async def change_preview(
        self, cell: CellName, *, only: frozenset[MachineName] = NONE, with_drift: bool = False
    ) -> ChangePreview:
        """Everything there is to know before a run; changes nothing.

        Args:
            cell: Which.
            only: The machines it would be about; none means all.
            with_drift: Ask the vendor about every machine as well.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
        """
        return await self._change_preview(await self._look(cell), only, with_drift=with_drift)

    async def _change_preview(
        self, seen: CellObservation, only: frozenset[MachineName], *, with_drift: bool
    ) -> ChangePreview:
        shown = await self._preview(seen.spec, seen.state, only)
        drift = (await self.preview_refresh(seen.spec.name, only=only)).changes if with_drift and seen.state else ()
        return change_preview_of(seen.spec, seen.machines_to_delete, seen.state, shown, drift, resized=seen.resized)

    async def _look(self, cell: CellName) -> CellObservation:
        rows = self._registry
        resized = rows.cells.resized_machines(cell)
        return CellObservation(
            rows.cells.spec(cell), rows.cells.machines_to_delete(cell), resized, await self.state(cell)
        )

    async def _preview(self, spec: CellSpec, state: Mapping[str, Any], only: frozenset[MachineName]) -> Preview:
        stack = stack_of(spec.name)
        held = machines_in(state)
        anew = made_anew(spec, state)
        going = anew | (held.keys() - {machine.name for machine in spec.machines})
        # Pulumi shows no end of what is protected. So this shows the run that drops the protection, then what follows.
        protected = protected_machines(state, going & only if only else going)
        ending = {machine.name for machine in protected}
        targets = self._targets(stack, only, spec, held)
        shown = await self._engine.preview(stack, self._programs.program(kept(spec, protected), going), targets=targets)
        return Preview(
            stack,
            (
                *(change for change in shown.changes if change.name not in ending),
                *(_ending(ChangeKind.REPLACE if n in anew else ChangeKind.DELETE, n, held[n]) for n in sorted(ending)),
            ),
        )

    async def preview_refresh(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> Preview:
        """What ``refresh`` would write into the cell's state; changes nothing."""
        stack = stack_of(cell)
        targets = self._targets(stack, only, None, machines_in(await self.state(cell)))
        return await self._engine.preview_refresh(stack, targets=targets)

    async def export(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it.

        Raises:
            UsageError: It has no stack.
        """
        return await self._engine.export(await self._existing(cell))

    async def outputs(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's outputs, secrets masked.

        Raises:
            UsageError: It has no stack.
        """
        return await self._engine.outputs(await self._existing(cell))

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""
        return machine in machines_in(await self.state(cell))

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it; empty before its first run."""
        stack = stack_of(cell)
        return await self._engine.export(stack) if stack in await self._engine.stacks(stack.project) else {}

    async def _existing(self, cell: CellName) -> StackRef:
        stack = stack_of(cell)
        known = await self._engine.stacks(stack.project)
        if stack not in known:
            raise unknown_name("stack", cell, [one.stack for one in known])
        return stack

    def _targets(
        self,
        stack: StackRef,
        only: frozenset[MachineName],
        spec: CellSpec | None,
        held: Mapping[MachineName, Mapping[str, Any]],
    ) -> Collection[str]:
        ordered = {machine.name for machine in spec.machines} if spec else set()
        if unknown := sorted(only - ordered - held.keys()):
            raise unknown_name("machine", unknown[0], sorted(ordered | held.keys()), of=stack.stack)
        return self._programs.urns(stack, only) if only else ()


def _ending(kind: ChangeKind, name: MachineName, resource: Mapping[str, Any]) -> Change:
    return Change(kind, resource["urn"], resource["type"], name, resource.get("id", ""))
