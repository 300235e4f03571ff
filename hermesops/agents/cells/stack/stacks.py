"""Cells' Pulumi stacks: observes their machines, and applies the registry's rows to them.

Whoever wants a machine in a cell calls ``apply``. One run at a time serves all rows written by then, so concurrent
requests end up in one ``up``.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from hermesops.agents.cells.changes.preview import ChangePreview, change_preview_of
from hermesops.agents.cells.stack.coalescing import Close, CoalescedRun, RunCoalescer, StillWanted
from hermesops.agents.cells.stack.progress import UpNarration
from hermesops.agents.cells.stack.state import kept, lease_of, machines_in, made_anew, protected_machines, stack_of
from hermesops.base.narration import counted
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.cell import CellSpec
from hermesops.model.ids import CellName, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef, UpResult
from hermesops.model.unknown_name import unknown_name
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry

if TYPE_CHECKING:  # load for long; a machine out of a warm pool needs neither
    from hermesops.infra.engine.interface import Engine
    from hermesops.infra.stacks.fleet import CellPrograms

NONE: frozenset[MachineName] = frozenset()


@dataclass(frozen=True)
class CellObservation:
    """The rows and the state of a cell at one moment."""

    spec: CellSpec
    machines_to_delete: frozenset[MachineName]
    resized: frozenset[MachineName]
    state: Mapping[str, Any]


Guard = Callable[[ChangePreview], Awaitable[None]]
"""Lets a run begin, or raises RefusedError or UsageError, and nothing is changed."""

Reporter = Callable[[CellName, Any], None]
"""Takes an engine's progress in a cell."""


@dataclass
class CellStacks:
    """Observes and changes cells, one run at a time each.

    Attributes:
        engine, programs: Give what takes long to load; a machine out of a warm pool needs neither.
        hold_lease: Waits for the lease of a subject and holds it while its context lasts.
        guard: Judges the changes of each run before it begins.
        report: Gets the engine's progress in runs by hand.
        warn: Gets it in runs for the requests of others.
    """

    registry: Registry
    engine: Callable[[], "Engine"]
    programs: Callable[[], "CellPrograms"]
    hold_lease: Callable[[str], AbstractAsyncContextManager[LeaseKeeper]]
    guard: Guard
    parallel: int = 1
    report: Reporter | None = None
    warn: Reporter | None = None
    narrate: Callable[[CellName, int], UpNarration] | None = None
    _coalescer: RunCoalescer[UpResult] = field(default_factory=RunCoalescer, init=False)

    @cached_property
    def _slots(self) -> asyncio.Semaphore:
        return asyncio.Semaphore(self.parallel)

    async def preview(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> Preview:
        """Preview ``up``: its changes, also deletions that are not allowed. Changes nothing.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
        """
        return (await self.change_preview(cell, only=only)).preview

    async def change_preview(
        self, cell: CellName, *, only: frozenset[MachineName] = NONE, with_drift: bool = False
    ) -> ChangePreview:
        """Everything that is judged before a run; changes nothing.

        Args:
            only: The machines it would be about; none means all.
            with_drift: Also ask the vendor about every machine.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
        """
        return await self._change_preview(await self._observe(cell), only, with_drift=with_drift)

    async def _change_preview(
        self, observation: CellObservation, only: frozenset[MachineName], *, with_drift: bool
    ) -> ChangePreview:
        shown = await self._preview(observation.spec, observation.state, only)
        drift = (
            (await self.preview_refresh(observation.spec.name, only=only)).changes
            if with_drift and observation.state
            else ()
        )
        return change_preview_of(
            observation.spec,
            observation.machines_to_delete,
            observation.state,
            shown,
            drift,
            resized=observation.resized,
        )

    async def _observe(self, cell: CellName) -> CellObservation:
        cells = self.registry.cells
        resized = cells.resized_machines(cell)
        return CellObservation(cells.spec(cell), cells.machines_to_delete(cell), resized, await self.state(cell))

    async def _preview(self, spec: CellSpec, state: Mapping[str, Any], only: frozenset[MachineName]) -> Preview:
        stack = stack_of(spec.name)
        in_state = machines_in(state)
        anew = made_anew(spec, state)
        going = anew | (in_state.keys() - {machine.name for machine in spec.machines})
        # Pulumi previews no deletion of what is protected: preview the run that drops protection, then add deletions.
        protected = protected_machines(state, going & only if only else going)
        ending = {machine.name for machine in protected}
        targets = self._targets(stack, only, spec, in_state)
        shown = await self.engine().preview(
            stack, self.programs().program(kept(spec, protected), going), targets=targets
        )
        return Preview(
            stack,
            (
                *(change for change in shown.changes if change.name not in ending),
                *(
                    _ending(ChangeKind.REPLACE if n in anew else ChangeKind.DELETE, n, in_state[n])
                    for n in sorted(ending)
                ),
            ),
        )

    async def preview_refresh(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> Preview:
        """Preview ``refresh``: its changes to the cell's state. Changes nothing."""
        stack = stack_of(cell)
        targets = self._targets(stack, only, None, machines_in(await self.state(cell)))
        return await self.engine().preview_refresh(stack, targets=targets)

    async def export(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it.

        Raises:
            UsageError: It has no stack.
        """
        return await self.engine().export(await self._existing(cell))

    async def outputs(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's outputs, secrets masked.

        Raises:
            UsageError: It has no stack.
        """
        return await self.engine().outputs(await self._existing(cell))

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        """Whether the cell's state has that machine."""
        return machine in await self.held(cell)

    async def held(self, cell: CellName) -> frozenset[MachineName]:
        """The machines in the cell's state."""
        return frozenset(machines_in(await self.state(cell)))

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """The cell's state as Pulumi exports it; empty before its first run."""
        stack = stack_of(cell)
        return await self.engine().export(stack) if stack in await self.engine().stacks(stack.project) else {}

    async def _existing(self, cell: CellName) -> StackRef:
        stack = stack_of(cell)
        known = await self.engine().stacks(stack.project)
        if stack not in known:
            raise unknown_name("stack", cell, [ref.stack for ref in known])
        return stack

    def _targets(
        self,
        stack: StackRef,
        only: frozenset[MachineName],
        spec: CellSpec | None,
        in_state: Mapping[MachineName, Mapping[str, Any]],
    ) -> Collection[str]:
        ordered = {machine.name for machine in spec.machines} if spec else set()
        if unknown := sorted(only - ordered - in_state.keys()):
            raise unknown_name("machine", unknown[0], sorted(ordered | in_state.keys()), of=stack.stack)
        return self.programs().urns(stack, only) if only else ()

    async def apply(self, cell: CellName, *, still_wanted: StillWanted) -> UpResult | None:
        """Run the cell's program for the rows as they are once its lease is held.

        Calls during a run are served together by the next one.

        Args:
            still_wanted: Asked after the wait for the lease: its last holder may have done our part.

        Returns:
            The changes; ``None`` when the run was no longer wanted.

        Raises:
            RefusedError: It would destroy a machine that no recorded operation names, or exceed the limits.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """

        async def run(group: CoalescedRun[UpResult], close: Close) -> UpResult | None:
            async with self._slots, self.hold_lease(lease_of(cell)) as turn:
                close()
                if not await group.is_wanted():
                    return None
                return await turn.guard(self._run(cell, _reporter_of(self.warn, cell)))

        return await self._coalescer.join(cell, still_wanted, run)

    async def up(
        self,
        cell: CellName,
        *,
        named: frozenset[MachineName] = NONE,
        only: frozenset[MachineName] = NONE,
        guard: Guard | None = None,
        with_drift: bool = False,
    ) -> UpResult:
        """Run the cell's program for the rows as they are once its lease is held, not batched with other requests.

        Args:
            named: Machines that may be destroyed, beside those of recorded operations.
            only: The machines it is about; none means all.
            guard: Judges the changes, in place of the usual guard.
            with_drift: Whether the guard needs the vendor's state of every machine.

        Raises:
            UsageError: There is no such cell, or no such machine in it.
            RefusedError: It would destroy a machine that was not named, or the guard refused; nothing changed.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        async with self._slots, self.hold_lease(lease_of(cell)) as turn:
            return await turn.guard(
                self._run(
                    cell,
                    _reporter_of(self.report, cell),
                    narrate=self.narrate,
                    named=named,
                    only=only,
                    guard=guard,
                    with_drift=with_drift,
                )
            )

    async def refresh(self, cell: CellName, *, only: frozenset[MachineName] = NONE) -> UpResult:
        """Update the cell's state from the vendor; changes no machine.

        Raises:
            UsageError: There is no such stack, or no such machine in it.
            UnavailableError: The vendor's API did not answer; safe to repeat.
        """
        stack = stack_of(cell)
        async with self._slots, self.hold_lease(lease_of(cell)) as turn:
            targets = self._targets(stack, only, None, machines_in(await self.state(cell)))
            return await turn.guard(
                self.engine().refresh(stack, targets=targets, report=_reporter_of(self.report, cell))
            )

    async def destroy(self, cell: CellName) -> UpResult:
        """Delete the stack of a cell without machines.

        Raises:
            RefusedError: It still has a machine; those are deleted with their instances.
        """
        stack = stack_of(cell)
        async with self._slots, self.hold_lease(lease_of(cell)) as turn:
            machines = machines_in(await self.state(cell))
            if machines:
                raise RefusedError(
                    f"{cell} still holds {counted(len(machines), 'machine')}: {', '.join(sorted(machines)[:3])} …",
                    hint=Hint(("instance", "terminate", "USER"), "ends an instance and its machine"),
                )
            return await turn.guard(
                self.engine().destroy(stack, may_destroy=lambda _: False, report=_reporter_of(self.report, cell))
            )

    async def _run(
        self,
        cell: CellName,
        report: Callable[[Any], None] | None,
        *,
        narrate: Callable[[CellName, int], UpNarration] | None = None,
        named: frozenset[MachineName] = NONE,
        only: frozenset[MachineName] = NONE,
        guard: Guard | None = None,
        with_drift: bool = False,
    ) -> UpResult:
        # Observed once: what is run is what was judged, whatever rows are written meanwhile.
        observation = await self._observe(cell)
        judged = await self._change_preview(observation, only, with_drift=with_drift)
        await (guard or self.guard)(judged)
        changes = sum(change.kind is not ChangeKind.SAME for change in judged.preview.changes)
        narration = narrate(cell, changes) if narrate else None
        stack, spec, state = stack_of(cell), observation.spec, observation.state
        machines_to_delete = observation.machines_to_delete | named
        targets = self._targets(stack, only, spec, machines_in(state))

        async def up(program: Callable[[], Any]) -> UpResult:
            return await self.engine().up(
                stack,
                program,
                targets=targets,
                may_destroy=lambda urn: urn.rpartition("::")[2] in machines_to_delete,
                report=narration or report,
            )

        changed: tuple[Change, ...] = ()
        if protected := protected_machines(state, machines_to_delete & only if only else machines_to_delete):
            # Protection goes in a run of its own, as Pulumi wants it: what is protected is never deleted.
            changed = (await up(self.programs().program(kept(spec, protected), machines_to_delete))).changes
        done = await up(self.programs().program(spec, frozenset()))
        if narration:
            narration.end()
        if not only:
            self.registry.cells.record_applied(cell)
        return UpResult(stack, (*changed, *done.changes), done.outputs)


def _reporter_of(report: Reporter | None, cell: CellName) -> Callable[[Any], None] | None:
    return None if report is None else lambda progress: report(cell, progress)


def _ending(kind: ChangeKind, name: MachineName, resource: Mapping[str, Any]) -> Change:
    return Change(kind, resource["urn"], resource["type"], name, resource.get("id", ""))
