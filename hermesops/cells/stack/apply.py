"""Brings cells' Pulumi stacks to what the registry's rows say.

Everybody who wants a machine in a cell calls ``bring``; one at a time runs, for all rows written by then, so concurrent
requests end up in one ``up`` and whoever waited finds its machine made.
"""

import asyncio
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from hermesops.cells.coalescing import Close, CoalescedRun, RunCoalescer, StillWanted
from hermesops.cells.naming import lease_of, stack_of
from hermesops.cells.ports import Engine, Guard, HeldLease, Program, Programs
from hermesops.cells.stack.observation import NONE, CellState
from hermesops.cells.stack.state import kept, machines_in, protected_machines
from hermesops.errors import RefusedError
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, UpResult
from hermesops.registry import Registry

Tell = Callable[[CellName, Any], None]
"""Takes an engine's progress in a cell."""


class CellStacks(CellState):
    """Shows and changes cells, one run at a time each.

    Args:
        registry: The registry's side.
        engine: Runs programs.
        programs: What it runs.
        hold_lease: Waits for and holds the lease of a subject for as long as its context lasts.
        guard: Looks at what each run would change before it begins.
        parallel: Cells that are run at the same time, at most.
        tell: Called with the engine's progress in a cell that somebody runs by hand.
        warn: The same where it is run for others' requests, who narrate what they wait for.
    """

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        programs: Programs,
        hold_lease: Callable[[str], AbstractAsyncContextManager[HeldLease]],
        guard: Guard,
        *,
        parallel: int = 1,
        tell: Tell | None = None,
        warn: Tell | None = None,
    ) -> None:
        super().__init__(registry, engine, programs)
        self._hold_lease = hold_lease
        self._guard = guard
        self._slots = asyncio.Semaphore(parallel)
        self._tell = tell
        self._warn = warn
        self._gathering: RunCoalescer[UpResult] = RunCoalescer()

    async def apply(self, cell: CellName, *, still_wanted: StillWanted) -> UpResult | None:
        """Run the cell's program for the rows as they stand once its lease is ours.

        Who calls this while a run is under way is served by the next one, together with all others who did.

        Args:
            cell: Which.
            still_wanted: Asked after the wait for the lease: whoever held it may have done our part.

        Returns:
            What changed, or ``None`` when nothing was wanted any more.

        Raises:
            RefusedError: It would destroy a machine that no recorded operation names, or pass the limits.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """

        async def run(group: CoalescedRun[UpResult], close: Close) -> UpResult | None:
            async with self._slots, self._hold_lease(lease_of(cell)) as turn:
                close()
                if not await group.is_wanted():
                    return None
                return await turn.guard(self._run(cell, _telling(self._warn, cell)))

        return await self._gathering.join(cell, still_wanted, run)

    async def up(
        self,
        cell: CellName,
        *,
        named: frozenset[MachineName] = NONE,
        only: frozenset[MachineName] = NONE,
        guard: Guard | None = None,
        with_drift: bool = False,
    ) -> UpResult:
        """Run the cell's program for the rows as they stand once its lease is ours, whoever else wants that too.

        Args:
            cell: Which.
            named: Machines that somebody named as ones that may be destroyed, beside those of recorded operations.
            only: The machines it is about; none means all.
            guard: Looks at what would change, in place of the usual one.
            with_drift: Whether it has to know what the vendor says of every machine.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
            RefusedError: It would destroy a machine that nobody named, or the guard refused; nothing changed.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        async with self._slots, self._hold_lease(lease_of(cell)) as turn:
            return await turn.guard(
                self._run(cell, _telling(self._tell, cell), named=named, only=only, guard=guard, with_drift=with_drift)
            )

    async def refresh(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> UpResult:
        """Bring the cell's state to what the vendor has; changes no machine.

        Raises:
            UsageError: There is no such stack, or no such machine in it.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        stack = stack_of(cell)
        async with self._slots, self._hold_lease(lease_of(cell)) as turn:
            targets = self._targets(stack, only, None, machines_in(await self.state(cell)))
            return await turn.guard(self._engine.refresh(stack, targets=targets, tell=_telling(self._tell, cell)))

    async def destroy(self, cell: CellName) -> UpResult:
        """Remove what is left of a cell without machines.

        Raises:
            RefusedError: It still holds a machine; those end with their instances.
        """
        stack = stack_of(cell)
        async with self._slots, self._hold_lease(lease_of(cell)) as turn:
            machines = machines_in(await self.state(cell))
            if machines:
                raise RefusedError(
                    f"{cell} still holds {len(machines)} machines, {', '.join(sorted(machines)[:3])} …",
                    hint="hermesops instance terminate USER ends an instance and its machine",
                )
            return await turn.guard(
                self._engine.destroy(stack, may_destroy=lambda _: False, tell=_telling(self._tell, cell))
            )

    async def _run(
        self,
        cell: CellName,
        tell: Callable[[Any], None] | None,
        *,
        named: frozenset[MachineName] = NONE,
        only: frozenset[MachineName] = NONE,
        guard: Guard | None = None,
        with_drift: bool = False,
    ) -> UpResult:
        # Looked at once: what is run is what was judged, whatever rows are written meanwhile.
        seen = await self._look(cell)
        await (guard or self._guard)(await self._change_preview(seen, only, with_drift=with_drift))
        stack, spec, state = stack_of(cell), seen.spec, seen.state
        machines_to_delete = seen.machines_to_delete | named
        targets = self._targets(stack, only, spec, machines_in(state))

        async def up(program: Program) -> UpResult:
            return await self._engine.up(
                stack,
                program,
                targets=targets,
                may_destroy=lambda urn: urn.rpartition("::")[2] in machines_to_delete,
                tell=tell,
            )

        changed: tuple[Change, ...] = ()
        if protected := protected_machines(state, machines_to_delete & only if only else machines_to_delete):
            # Protection goes in a run of its own, as Pulumi wants it: what is protected is never deleted.
            changed = (await up(self._programs.program(kept(spec, protected), machines_to_delete))).changes
        done = await up(self._programs.program(spec, frozenset()))
        if not only:
            self._registry.cells.record_applied(cell)
        return UpResult(stack, (*changed, *done.changes), done.outputs)


def _telling(tell: Tell | None, cell: CellName) -> Callable[[Any], None] | None:
    return None if tell is None else lambda progress: tell(cell, progress)
