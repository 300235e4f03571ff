"""A cell, its pool and the vendor in memory, worked on by computers that may die at any write or change."""

import random
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.pool.claims import claim
from hermesops.agents.pool.decide import Target
from hermesops.agents.pool.machines import PoolMachines
from hermesops.agents.pool.workflow import PoolFill
from hermesops.base import waiting
from hermesops.errors import HermesError
from hermesops.model.fleet.cell import Placement
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.unassigned_machine import UnassignedMachine, UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Lease, Operation, OperationKind
from hermesops.model.plan import Plan
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.operations.reconcile import Reconciler, drive
from hermesops.store.registry import Registry
from hermesops.vendor.justavps.wire import Machine, MachineStatus
from tests.support.crash.death import Death, Mortal

CELL = CellName("cell1")
IMAGES = (ImageId("i-1"), ImageId("i-2"))
CELL_SIZE = 6


@dataclass(eq=False)
class Computer:
    """One process's way to the registry and the world.

    Attributes:
        death: When it is off: nothing of it happens any more, no cleaning up either.
    """

    registry: Registry
    death: Death = field(default_factory=Death)

    @cached_property
    def rows(self) -> Any:  # noqa: ANN401 - the registry, as far as this computer still reaches it
        """The registry through this computer."""
        return Mortal(self.registry, self.death)

    def change(self, do: Callable[..., Any], *given: Any, **named: Any) -> Any:  # noqa: ANN401 - whatever it does
        """Do something, unless this computer dies of it."""
        return self.death.around(do)(*given, **named)


def rented(machine_id: str, status: MachineStatus = MachineStatus.READY) -> Machine:
    """A machine at the vendor."""
    return Machine(id=machine_id, name=machine_id, status=status)


@dataclass
class Cloud:
    """The vendor, the cell's stack, and what is on the machines.

    Attributes:
        owners: Whom a machine was given to; it stays so for good.
        gone: Machines that were destroyed.
        wrong: What must never have happened.
        meanwhile: Done by somebody else between the look of a cell's run and its changes.
    """

    registry: Registry
    dice: random.Random
    machines: dict[MachineName, Machine] = field(default_factory=dict)
    stack: set[MachineName] = field(default_factory=set)
    owners: dict[str, InstanceId] = field(default_factory=dict)
    gone: set[MachineName] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    meanwhile: Callable[[], Awaitable[None]] | None = None

    async def pause(self) -> None:
        """Let others go on for a while."""
        for _ in range(self.dice.randrange(4)):
            await waiting.pause(0)

    def destroy(self, name: MachineName) -> None:
        """Take a machine away."""
        if any(instance.machine_name == name for instance in self.registry.instances.list()):
            self.wrong.append(f"{name} was destroyed, and a user is on it")
        self.machines.pop(name, None)
        self.gone.add(name)


class Site(PoolMachines):
    """The world as one computer reaches it; what ``PoolFill`` and ``claim`` need."""

    def __init__(self, cloud: Cloud, computer: Computer) -> None:
        self.cloud = cloud
        self.computer = computer

    async def listed(self) -> Mapping[MachineName, Machine]:
        await self.cloud.pause()
        return dict(self.cloud.machines)

    async def node(self, machine_id: MachineId) -> NodeState:
        await self.cloud.pause()
        return NodeState(self.cloud.owners.get(machine_id), 0, "", "")

    async def await_machine(self, _row: UnassignedMachine) -> None:
        await self.cloud.pause()

    async def faults(self, _machine_id: MachineId) -> Sequence[str]:
        await self.cloud.pause()
        return ()

    async def warm(self, machine_id: MachineId, _lease: Lease) -> str:
        await self.cloud.pause()
        self.computer.change(lambda: None)
        if machine_id in self.cloud.owners:
            self.cloud.wrong.append(f"{machine_id} was warmed up, and a user is on it")
        return f"key of {machine_id}"

    async def is_up(self, row: UnassignedMachine) -> bool:
        await self.cloud.pause()
        return row.name in self.cloud.machines


class Cells(CellStacks):
    """The cell's stack, as one computer changes it."""

    def __init__(self, cloud: Cloud, computer: Computer) -> None:
        self.cloud = cloud
        self.computer = computer

    async def held(self, _cell: CellName) -> frozenset[MachineName]:
        await self.cloud.pause()
        return frozenset(self.cloud.stack)

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:
        async with LeaseKeeper(self.computer.rows, f"stack/{cell}"):
            if not await still_wanted():
                return
            spec, machines_to_delete = (
                self.cloud.registry.cells.spec(cell),
                self.cloud.registry.cells.machines_to_delete(cell),
            )
            await self.cloud.pause()
            if self.cloud.meanwhile:
                await self.cloud.meanwhile()
            wanted = {machine.name for machine in spec.machines}
            for name in sorted(self.cloud.stack - wanted):
                if name not in machines_to_delete:
                    raise AssertionError(f"{name} would be destroyed, and nobody gave it up")
                self.computer.change(self.cloud.destroy, name)
                self.cloud.stack.discard(name)
            for name in sorted(wanted - self.cloud.stack):
                self.computer.change(self.cloud.machines.setdefault, name, rented(f"m-{name}"))
                self.cloud.stack.add(name)


def target(size: int, image: int = 0) -> Target:
    """A pool of that many machines."""
    return Target(Plan.LIGHT, size, "starter", IMAGES[image])


async def fill(site: Site, wanted: Target) -> str:
    """Bring the pool to its size, as an operation does; what speaks against it is the answer."""
    computer = site.computer.rows
    alone = partial(LeaseKeeper, computer)
    try:
        operation = computer.operations.open(OperationKind.POOL_FILL, pool_subject(CELL), intent={"cell": str(CELL)})
        targets = [wanted] if wanted.size else []

        def make(_operation: Operation, _lease: Lease) -> Reconciler[Any, Any]:
            return PoolFill(CELL, targets, CELL_SIZE, computer, site, Cells(site.cloud, site.computer), alone)

        return await drive(operation, make, computer, computer, lambda _: None)
    except HermesError as error:
        return error.message


async def come(site: Site, alias: str, wanted: Target) -> None:
    """A newcomer takes a machine of the pool, if one is ready, and is given it."""
    computer, cloud = site.computer.rows, site.cloud
    user = partial(computer.users.resolve, alias, create=True)
    instance = await claim(computer, site.is_up, user, wanted, region="hel1")
    if instance and instance.machine_id:
        before = cloud.owners.setdefault(instance.machine_id, instance.id)
        if before != instance.id:
            cloud.wrong.append(f"{instance.machine_name} was given to two users")


def problems(cloud: Cloud, size: int, image: int) -> list[str]:
    """What is not as it must be once everything has come to rest."""
    registry = cloud.registry
    instances, unassigned = registry.instances.list(), registry.unassigned.list(cell=CELL)
    problems = list(cloud.wrong)
    names = sorted([*(row.machine_name for row in instances), *(row.name for row in unassigned)])
    if names != sorted(cloud.machines) or set(names) != cloud.stack:
        problems.append(f"rows {names}, machines {sorted(cloud.machines)}, stack {sorted(cloud.stack)}")
    room = CELL_SIZE - len(instances)
    ready = [row for row in unassigned if row.status is UnassignedStatus.READY and row.wanted]
    if len(ready) != len(unassigned) or len(ready) != min(size, room):
        problems.append(f"the pool is {[(row.name, row.status) for row in unassigned]}, and should be {size}")
    if any(row.image_id != IMAGES[image] for row in ready):
        problems.append("a stale image is in the pool")
    if touched := [row.name for row in ready if row.machine_id in cloud.owners]:
        problems.append(f"a user's machine is in the pool again: {touched}")
    if cloud.gone & {row.machine_name for row in instances}:
        problems.append("an instance is on a machine that was destroyed")
    keys = {registry.instance_secrets.api_server_key(row.id) for row in instances}
    if len(keys) != len(instances):
        problems.append("two instances have one key")
    return problems + [contradiction.what for contradiction in registry.consistency.contradictions()]


def opened(registry: Registry) -> None:
    """Open the cell."""
    registry.cells.open(Placement(CELL, "hel1", only_plan=None))
