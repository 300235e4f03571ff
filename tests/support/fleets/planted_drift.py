"""Breaks a fleet behind hermesops's back, each way for as many users as told, chosen by a seed.

What should be found of it afterwards is known beforehand, so a finding too many shows as well as one too few.
"""

import random
from collections.abc import Awaitable, Callable, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from hermesops.agents.drift.finding import Kind
from hermesops.app.connected import Connected
from hermesops.app.container import Container
from hermesops.base.waiting import Pending, until
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.ids import CellName, InstanceId, MachineId, machine_name
from hermesops.vendor.justavps.wire import Machine, MachineOrder, MachineStatus

LARGER = "basic"


@dataclass(frozen=True)
class Expected:
    """A finding that has to come: of what kind, and about whom; a machine without a user is told by its maker."""

    kind: Kind
    about: str


@dataclass
class Ground:
    """What is broken, and what is known of it.

    Attributes:
        expected: Findings that have to come.
        names: Machines and what they are called in both of two runs, whose ids differ.
        leaving: Users whose agents end.
        anew: Users whose agents begin anew, as what was on their machines is lost.
        states: Cells' states, edited before they are put back.
    """

    connected: Connected
    chance: random.Random
    expected: set[Expected] = field(default_factory=set)
    names: dict[str, str] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)
    anew: set[str] = field(default_factory=set)
    states: dict[CellName, dict[str, Any]] = field(default_factory=dict)

    @property
    def app(self) -> Container:
        return self.connected.container

    def expect(self, kind: Kind, about: str) -> None:
        self.expected.add(Expected(kind, about))

    def new_id(self) -> str:
        return str(UUID(int=self.chance.getrandbits(128), version=4))

    async def resources(self, cell: CellName) -> list[dict[str, Any]]:
        """The resources of a cell's state, to be edited."""
        if cell not in self.states:
            self.states[cell] = deepcopy(dict(await self.app.cell_stacks.export(cell)))
        resources: list[dict[str, Any]] = self.states[cell]["deployment"]["resources"]
        return resources

    async def machine_of(self, row: Ordered) -> dict[str, Any]:
        """A machine in the state of its cell."""
        resources = await self.resources(row.instance.cell)
        return next(resource for resource in resources if resource["urn"].endswith(f"::{row.instance.machine_name}"))

    async def order(self, row: Ordered, name: str) -> None:
        """Rent a machine as a row's, under a name."""
        order = MachineOrder(name=name, server_type=row.server_type, region=row.region, image_id=row.image_id)
        await self.settled((await self.connected.client.post_order(order)).id)

    async def settled(self, machine_id: str, status: MachineStatus = MachineStatus.READY, size: str = "") -> None:
        """Wait until the vendor says so of a machine."""

        async def observe() -> Machine | Pending[Machine]:
            machine = await self.connected.client.get_machine(machine_id)
            fits = machine.status is status and size in {"", machine.server_type}
            return machine if fits else Pending(f"{machine.status} {machine.server_type}")

        await until(observe, what=f"machine {machine_id}", timeout_s=120, every_s=0.1)


Break = Callable[[Ground, Ordered], Awaitable[None]]


async def stop(ground: Ground, row: Ordered) -> None:
    await ground.connected.client.stop_machine(_id(row))
    await ground.settled(_id(row), MachineStatus.STOPPED)
    ground.expect(Kind.STOPPED, row.instance.title)


async def resize(ground: Ground, row: Ordered) -> None:
    await ground.connected.client.resize_machine(_id(row), server_type=LARGER)
    await ground.settled(_id(row), size=LARGER)
    ground.expect(Kind.RESIZED, row.instance.title)


async def destroy(ground: Ground, row: Ordered) -> None:
    await ground.connected.client.delete_machine(_id(row))
    ground.anew.add(row.instance.title)
    ground.expect(Kind.MACHINE_MISSING, row.instance.title)


async def order_unwanted(ground: Ground, row: Ordered) -> None:
    name = machine_name("local", row.instance.cell, InstanceId(ground.new_id()))
    await ground.order(row, name)
    ground.names[name] = f"stray beside {row.instance.title}"
    ground.expect(Kind.ORPHAN, ground.names[name])


async def order_twice(ground: Ground, row: Ordered) -> None:
    await ground.order(row, row.instance.machine_name)
    ground.expect(Kind.DUPLICATE, ground.names[row.instance.machine_name])


async def forget_in_state(ground: Ground, row: Ordered) -> None:
    (await ground.resources(row.instance.cell)).remove(await ground.machine_of(row))
    ground.expect(Kind.NOT_IN_STACK, row.instance.title)


async def interrupt(ground: Ground, row: Ordered) -> None:
    """Leave the state as a run does that dies while the machine is made."""
    begun = await ground.machine_of(row)
    (await ground.resources(row.instance.cell)).remove(begun)
    kept = {key: value for key, value in begun.items() if key not in {"id", "outputs", "created", "modified"}}
    deployment = ground.states[row.instance.cell]["deployment"]
    deployment.setdefault("pending_operations", []).append({"resource": kept, "type": "creating"})
    ground.expect(Kind.NOT_IN_STACK, row.instance.title)
    ground.expect(Kind.STACK_INTERRUPTED, row.instance.cell)


async def mistake_in_state(ground: Ground, row: Ordered) -> None:
    (await ground.machine_of(row))["id"] = ground.new_id()
    ground.expect(Kind.STACK_DIFFERS, row.instance.title)


async def haunt_state(ground: Ground, row: Ordered) -> None:
    """Leave a machine in the state that neither the vendor nor a row knows."""
    name = machine_name("local", row.instance.cell, InstanceId(ground.new_id()))
    ghost = deepcopy(await ground.machine_of(row))
    ghost |= {"id": ground.new_id(), "urn": ghost["urn"].rpartition("::")[0] + f"::{name}"}
    for values in (ghost["inputs"], ghost["outputs"]):
        values["name"] = name
    (await ground.resources(row.instance.cell)).append(ghost)
    ground.names[name] = f"ghost beside {row.instance.title}"
    ground.expect(Kind.ONLY_IN_STACK, ground.names[name])


async def mistake_in_row(ground: Ground, row: Ordered) -> None:
    ground.app.registry.instances.set_machine(row.instance.id, MachineId(ground.new_id()), why="test")
    ground.expect(Kind.MACHINE_REPLACED, row.instance.title)


async def halve(ground: Ground, row: Ordered) -> None:
    ground.app.registry.instances.set_status(row.instance.id, InstanceStatus.PROVISIONING, why="test")
    ground.expect(Kind.UNFINISHED, row.instance.title)


async def give_up(ground: Ground, row: Ordered) -> None:
    """Begin an end as a command does that dies at once."""
    ground.app.registry.instances.mark_for_deletion(row.instance.id, why="test")
    ground.leaving.add(row.instance.title)
    ground.expect(Kind.LEAVING, row.instance.title)


ALONE: tuple[Break, ...] = (
    stop,
    resize,
    destroy,
    order_unwanted,
    order_twice,
    forget_in_state,
    interrupt,
    mistake_in_state,
    haunt_state,
    mistake_in_row,
    halve,
    give_up,
)
"""What is done to one user's machine."""


async def plant(ground: Ground, rows: Sequence[Ordered], times: int) -> None:
    """Break as many users' machines in each way, each at most once.

    Beside that two rows come to name each other's machine, and the machines of ended instances come back.
    """
    ground.names.update({row.instance.machine_name: f"machine of {row.instance.title}" for row in rows})
    by_user = sorted(rows, key=lambda row: row.instance.title)
    victims = iter(ground.chance.sample(by_user, k=times * len(ALONE) + 2))
    for broken in ALONE:
        for _ in range(times):
            await broken(ground, next(victims))
    victim, other = victims
    for row, wrong in ((victim, other), (other, victim)):
        ground.app.registry.instances.set_machine(row.instance.id, MachineId(_id(wrong)), why="test")
        ground.expect(Kind.MACHINE_REPLACED, row.instance.title)
    for name in ground.app.registry.fleet.ended_machines():
        ground.names[name] = "machine of one that ended"
        await ground.order(victim, name)
        ground.expect(Kind.ORPHAN_ENDED, ground.names[name])
    for cell, state in ground.states.items():
        await ground.app.cell_states.take(cell, state, why="test")


def _id(row: Ordered) -> str:
    assert row.instance.machine_id
    return row.instance.machine_id
