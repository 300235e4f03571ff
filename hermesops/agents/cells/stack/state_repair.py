"""Repairs cells' stacks by hand: restores a copy of the state, imports a state, imports machines by their ids.

Each holds the cell's lease, so that no run goes on meanwhile, and is recorded in the audit log.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.cells.stack.state import lease_of, machines_in, stack_of
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.infra.engine.embedded.state.secrets import PassphraseVault
from hermesops.infra.engine.embedded.state.stored_stacks import StoredStacks
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.fleet.overview import Ordered
from hermesops.model.ids import CellName, MachineId, MachineName, is_machine_name
from hermesops.model.stack import StateVersion
from hermesops.model.unknown_name import unknown_name
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.client import Client
from hermesops.vendor.justavps.errors import NotFoundError
from hermesops.vendor.justavps.wire import Machine, MachineStatus


@dataclass(frozen=True)
class CellStates:
    """Restores, imports and lists the Pulumi states of cells; machines stay as they are."""

    states: StoredStacks
    registry: Registry
    hold_lease: Callable[[str], AbstractAsyncContextManager[object]]

    async def versions(self, cell: CellName, *, limit: int) -> Sequence[StateVersion]:
        """The newest copies of a cell's state, newest first."""
        return await self.states.state_versions(stack_of(cell), limit=limit)

    async def restore(self, cell: CellName, version: str, *, why: str) -> StateVersion:
        """Replace a cell's state by a copy; machines stay as they are.

        Raises:
            UsageError: There is no such copy.
            RefusedError: It is damaged, or there is no undamaged one.
        """
        async with self.hold_lease(lease_of(cell)):
            put = await self.states.rollback_state(stack_of(cell), version)
            after = {"version": put.version, "resources": put.resources}
            self.registry.audit.append("state_rolled_back", f"cell/{cell}", why=why, after=after)
            return put

    async def take(self, cell: CellName, document: Mapping[str, Any], *, why: str) -> None:
        """Replace a cell's state by an exported one; machines stay as they are.

        Raises:
            UsageError: It is no exported state.
            RefusedError: It is another cell's, or contradicts itself.
        """
        async with self.hold_lease(lease_of(cell)):
            await self.states.import_state(stack_of(cell), document)
            self.registry.audit.append("state_imported", f"cell/{cell}", why=why)


def parse_imports(texts: Sequence[str], environment: str) -> dict[MachineName, MachineId]:
    """Machines as typed, ``NAME=ID`` each.

    Raises:
        UsageError: One is typed otherwise, or twice.
        RefusedError: A name is not of our scheme in this environment.
    """
    imports: dict[MachineName, MachineId] = {}
    for text in texts:
        name, _, id_ = text.partition("=")
        if not _is_uuid(id_) or name in imports:
            raise UsageError(f"{text!r} does not name one machine: NAME=ID, each once", hint=Hint(("fleet", "drift")))
        if not is_machine_name(name, environment):
            raise RefusedError(
                f"{name!r} is no name of a machine of environment {environment}", hint=Hint(("cell", "show", "CELL"))
            )
        imports[MachineName(name)] = MachineId(id_)
    return imports


def refuse_unfit(cell: CellName, ordered: CellMachine | None, row: Ordered | None, machine: Machine) -> None:
    """Refuse a machine that differs from its row of the cell: an import must change no machine. Pure.

    Args:
        ordered: Machine of that name that the rows of the cell order; ``None`` for none.
        row: The instance of the machine; ``None`` for a machine without an instance.

    Raises:
        RefusedError: It is another machine, of another instance, or not as ordered.
    """
    drift = Hint(("fleet", "drift"))
    if ordered is None:
        raise RefusedError(
            f"no row of {cell} orders a machine {machine.name}: the next up would destroy it",
            hint=Hint(
                ("fleet", "repair", "adopt", machine.name),
                "assigns it to its instance;",
                ("fleet", "drift"),
                "shows more",
            ),
        )
    if machine.name != ordered.name:
        raise RefusedError(
            f"machine {machine.id} has the name {machine.name or 'none'}, not {ordered.name}", hint=drift
        )
    if row is not None and row.instance.machine_id not in {None, machine.id}:
        raise RefusedError(
            f"{row.instance.title} is on machine {row.instance.machine_id}, not {machine.id}", hint=drift
        )
    has = (machine.server_type, machine.region, machine.image_id or "")
    expected = (ordered.server_type, ordered.region, ordered.image_id or "")
    for what, is_so, should in zip(("server type", "region", "image"), has, expected, strict=True):
        if is_so and is_so != should:
            raise RefusedError(f"{machine.name} has {what} {is_so}, its row orders {should or 'none'}", hint=drift)


async def import_machines(
    stacks: CellStacks, vendor: Client, cell: CellName, imports: Mapping[MachineName, MachineId], *, why: str
) -> tuple[MachineName, ...]:
    """Import machines into a cell's stack; returns those that were not in it. Changes no machine; safe to repeat.

    For machines that a stack lost or never had. The cell's own program does it: with its URNs, parent and protection.
    Rows assign machines to instances; ``fleet repair adopt`` changes them.

    Raises:
        UsageError: There is no such cell, or no such machine at JustAVPS.
        RefusedError: A machine differs from its row, or the stack holds another one of its name.
    """
    async with stacks.hold_lease(lease_of(cell)) as turn:
        spec = stacks.registry.cells.spec(cell)
        in_state = {name: resource.get("id") for name, resource in machines_in(await stacks.state(cell)).items()}
        for name, id_ in imports.items():
            await _refuse(stacks.registry, vendor, spec, name, id_, id_in_stack=in_state.get(name) or id_)
        missing = {name: id_ for name, id_ in imports.items() if name not in in_state}
        if missing:
            programs, stack = stacks.programs(), stack_of(cell)
            targets, program = programs.urns(stack, missing.keys()), programs.importing(spec, missing)
            await turn.guard(stacks.engine().up(stack, program, targets=targets, may_destroy=lambda _: False))
            after = {str(name): id_ for name, id_ in missing.items()}
            stacks.registry.audit.append("machines_imported", f"cell/{cell}", why=why, after=after)
    return tuple(missing)


async def _refuse(
    registry: Registry, vendor: Client, spec: CellSpec, name: MachineName, id_: MachineId, *, id_in_stack: str
) -> None:
    ordered = next((machine for machine in spec.machines if machine.name == name), None)
    row = next((row for row in registry.fleet.list_ordered(spec.name) if row.instance.machine_name == name), None)
    try:
        machine = await vendor.get_machine(id_)
    except NotFoundError:
        machine = None
    if machine is None or machine.status is MachineStatus.DELETED:
        raise unknown_name("machine", id_, of=spec.name, where=" at JustAVPS")
    refuse_unfit(spec.name, ordered, row, machine)
    if id_in_stack != id_:
        raise RefusedError(
            f"the stack of {spec.name} holds machine {id_in_stack} under the name {name}",
            hint=Hint(("stack", "refresh", spec.name), "removes it if it is gone; then run the same command again"),
        )


async def open_first_state(registry: Registry, stacks: CellStacks, passphrase: Callable[[], str]) -> str:
    """Open the state of one cell with the passphrase; all states have the same. The result as text.

    Raises:
        RefusedError: It is another passphrase.
        BrokenInvariantError: The state is damaged.
    """
    for cell in registry.cells.list():
        try:
            document = await stacks.export(cell.name)
        except UsageError:  # it has rows and no stack yet
            continue
        sealed = document.get("deployment", {}).get("secrets_providers") or {}
        salt = str((sealed.get("state") or {}).get("salt", ""))
        if salt:
            PassphraseVault(passphrase, salt=salt, keys={}, stack=cell.name).unlock()
            return f"opens the state of {cell.name}"
    return "readable; no state needs it yet"


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
