"""Machines that exist, taken into a cell's stack by their ids, where the stack has lost them or never had them.

Whose a machine is, is not decided here: the rows say that, and ``fleet adopt`` changes them.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol
from uuid import UUID

from hermesops.cells.naming import lease_of, stack_of
from hermesops.cells.ports import HeldLease, Program
from hermesops.cells.stack.state import machines_in
from hermesops.errors import RefusedError, UsageError
from hermesops.justavps.errors import NotFoundError
from hermesops.justavps.wire import Machine, MachineStatus
from hermesops.model.cell import CellMachine, CellSpec
from hermesops.model.fleet import Ordered
from hermesops.model.ids import CellName, MachineId, MachineName, is_machine_name
from hermesops.model.stack import StackRef, UpResult
from hermesops.model.unknown_name import unknown_name
from hermesops.registry import Registry


def parse_imports(texts: Sequence[str], environment: str) -> dict[MachineName, MachineId]:
    """Machines as typed, ``NAME=ID`` each.

    Raises:
        UsageError: One is typed otherwise, or twice.
        RefusedError: A name is not of our scheme in this environment.
    """
    wanted: dict[MachineName, MachineId] = {}
    for text in texts:
        name, _, id_ = text.partition("=")
        if not _is_uuid(id_) or name in wanted:
            raise UsageError(f"{text!r} does not name one machine: NAME=ID, each once", hint="hermesops fleet drift")
        if not is_machine_name(name, environment):
            raise RefusedError(
                f"{name!r} is no name of a machine of environment {environment}", hint="hermesops cell show CELL"
            )
        wanted[MachineName(name)] = MachineId(id_)
    return wanted


def refuse_unfit(cell: CellName, ordered: CellMachine | None, row: Ordered | None, found: Machine) -> None:
    """Let a machine into a cell's stack only if it is the one that a row of the cell orders, as it orders it. Pure.

    Args:
        cell: Which.
        ordered: What the rows of the cell say of a machine of that name; ``None`` when they say nothing.
        row: The instance whose machine it is; ``None`` for a machine without an instance.
        found: The machine of the id.

    Raises:
        RefusedError: It is another's, another, or not as ordered: an import must change no machine.
    """
    drift = "hermesops fleet drift"
    if ordered is None:
        raise RefusedError(
            f"no row of {cell} orders a machine {found.name}: the next up would destroy it",
            hint=f"hermesops fleet adopt {found.name} gives it to its instance; hermesops fleet drift shows more",
        )
    if found.name != ordered.name:
        raise RefusedError(f"machine {found.id} is called {found.name or 'nothing'}, not {ordered.name}", hint=drift)
    if row is not None and row.instance.machine_id not in {None, found.id}:
        raise RefusedError(f"{row.instance.title} is on machine {row.instance.machine_id}, not {found.id}", hint=drift)
    has = (found.server_type, found.region, found.image_id or "")
    wanted = (ordered.server_type, ordered.region, ordered.image_id or "")
    for what, is_so, should in zip(("server type", "region", "image"), has, wanted, strict=True):
        if is_so and is_so != should:
            raise RefusedError(f"{found.name} has {what} {is_so}, its row orders {should or 'none'}", hint=drift)


class Vendor(Protocol):
    """JustAVPS."""

    async def get_machine(self, machine_id: str) -> Machine:
        """One machine."""


class Engine(Protocol):
    """Runs Pulumi programs; see ``hermesops.engine``."""

    async def up(
        self,
        stack: StackRef,
        program: Program,
        *,
        targets: Collection[str] = (),
        may_destroy: Callable[[str], bool] | None = None,
    ) -> UpResult:
        """Make the stack what the program says."""


class States(Protocol):
    """The cells' stacks."""

    async def state(self, cell: CellName) -> Mapping[str, Any]:
        """A cell's state as Pulumi exports it; empty before its first run."""


class Programs(Protocol):
    """Cells' Pulumi programs; see ``hermesops.stacks``."""

    def importing(self, spec: CellSpec, ids: Mapping[MachineName, MachineId]) -> Program:
        """A cell's program that names some of its machines by their ids."""

    def urns(self, stack: StackRef, machines: Collection[MachineName]) -> Collection[str]:
        """What an engine calls machines of a cell, with what they need."""


class CellImports:
    """Takes machines into the stacks of cells, by the cell's own program: with its URNs, its parent, its protection.

    Args:
        registry: The registry.
        engine: Runs programs.
        states: What the stacks hold.
        programs: What the engine runs.
        vendor: JustAVPS.
        hold_lease: Waits for and holds the lease of a subject for as long as its context lasts.
    """

    def __init__(
        self,
        registry: Registry,
        engine: Engine,
        states: States,
        programs: Programs,
        vendor: Vendor,
        hold_lease: Callable[[str], AbstractAsyncContextManager[HeldLease]],
    ) -> None:
        self._registry = registry
        self._engine = engine
        self._states = states
        self._programs = programs
        self._vendor = vendor
        self._hold_lease = hold_lease

    async def take(
        self, cell: CellName, wanted: Mapping[MachineName, MachineId], *, why: str
    ) -> tuple[MachineName, ...]:
        """Take machines into a cell's stack; those that were not in it. No machine is changed; safe to repeat.

        Raises:
            UsageError: There is no such cell, or no such machine at JustAVPS.
            RefusedError: A machine is not what a row of the cell orders, or the stack holds another one of its name.
        """
        async with self._hold_lease(lease_of(cell)) as turn:
            spec = self._registry.cells.spec(cell)
            held = {name: one.get("id") for name, one in machines_in(await self._states.state(cell)).items()}
            for name, id_ in wanted.items():
                await self._refuse(spec, name, id_, held.get(name) or id_)
            missing = {name: id_ for name, id_ in wanted.items() if name not in held}
            if missing:
                await turn.guard(self._import(spec, missing))
                self._registry.audit.append(
                    "machines_imported",
                    f"cell/{cell}",
                    why=why,
                    after={str(name): id_ for name, id_ in missing.items()},
                )
        return tuple(missing)

    async def _refuse(self, spec: CellSpec, name: MachineName, id_: MachineId, held: str) -> None:
        ordered = next((machine for machine in spec.machines if machine.name == name), None)
        row = next(
            (row for row in self._registry.fleet.list_ordered(spec.name) if row.instance.machine_name == name), None
        )
        try:
            found = await self._vendor.get_machine(id_)
        except NotFoundError:
            found = None
        if found is None or found.status is MachineStatus.DELETED:
            raise unknown_name("machine", id_, of=spec.name, where=" at JustAVPS")
        refuse_unfit(spec.name, ordered, row, found)
        if held != id_:
            raise RefusedError(
                f"the stack of {spec.name} holds machine {held} by the name {name}",
                hint=f"hermesops stack refresh {spec.name} forgets it if it is gone; then the same command again",
            )

    async def _import(self, spec: CellSpec, ids: Mapping[MachineName, MachineId]) -> UpResult:
        stack = stack_of(spec.name)
        return await self._engine.up(
            stack,
            self._programs.importing(spec, ids),
            targets=self._programs.urns(stack, ids.keys()),
            may_destroy=lambda _: False,
        )


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
