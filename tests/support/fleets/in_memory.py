"""Fleets in memory for tests of what differs: rows, machines and stacks that agree, until a test breaks something."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from hermesops.agents.drift.fleet_snapshot import FleetSnapshot, MachineSnapshot, StackMachine, StackSnapshot
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.fleet.overview import Ordered
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, UserId, machine_name
from hermesops.model.plan import Plan
from hermesops.model.recovery.recovered import Recovered
from hermesops.vendor.justavps.wire import Image, ImageStatus, Machine, MachineStatus

AT = datetime(2026, 1, 1, 12, tzinfo=UTC)
IMAGE = ImageId("image-1")
PER_CELL = 40


def ordered(number: int, **changes: Any) -> Ordered:  # noqa: ANN401 - any field of an instance
    """The row of instance ``number``, running on a machine of its own."""
    instance_id = InstanceId(str(UUID(int=number << 80)))
    cell = CellName(f"cell{number // PER_CELL + 1}")
    instance = Instance(
        id=instance_id,
        user_id=UserId(str(UUID(int=number + 1))),
        user_alias=f"user{number}",
        plan=Plan.LIGHT,
        status=InstanceStatus.RUNNING,
        cell=cell,
        machine_name=machine_name("local", cell, instance_id),
        machine_id=MachineId(f"m-{number}"),
        epoch=1,
        created_at=AT,
    )
    return Ordered(replace(instance, **changes), "starter", "hel1", IMAGE, wanted=True)


def machine_for(row: Ordered, **changes: Any) -> Machine:  # noqa: ANN401 - any field of a machine
    """The machine that an instance is on, as the vendor lists it."""
    values: dict[str, Any] = {
        "id": row.instance.machine_id or f"id-of-{row.instance.machine_name}",
        "name": row.instance.machine_name,
        "status": MachineStatus.READY,
        "server_type": row.server_type,
        "region": row.region,
        "image_id": row.image_id,
        "created_at": AT,
    }
    return Machine(**(values | changes))


def pooled(number: int, **changes: Any) -> UnassignedMachine:  # noqa: ANN401 - any field of an unassigned machine
    """A machine of the warm pool, ready."""
    instance_id = InstanceId(str(UUID(int=(number + 0xAB0000) << 80)))
    row = UnassignedMachine(
        name=machine_name("local", CellName("cell1"), instance_id),
        role=MachineRole.WARM,
        instance_id=None,
        cell=CellName("cell1"),
        plan=Plan.LIGHT,
        server_type="starter",
        region="hel1",
        image_id=IMAGE,
        machine_id=MachineId(f"s-{number}"),
        wanted=True,
        status=UnassignedStatus.READY,
        epoch=0,
        created_at=AT,
        ready_at=AT,
    )
    return replace(row, **changes)


def machine_of_unassigned(row: UnassignedMachine, **changes: Any) -> Machine:  # noqa: ANN401 - any field of a machine
    """An unassigned machine as the vendor lists it."""
    values: dict[str, Any] = {
        "id": row.machine_id or f"id-of-{row.name}",
        "name": row.name,
        "status": MachineStatus.READY,
        "server_type": row.server_type,
        "region": row.region,
        "image_id": row.image_id,
        "created_at": AT,
    }
    return Machine(**(values | changes))


@dataclass
class Fleet:
    """A fleet of which all accounts agree."""

    rows: list[Ordered]
    machines: list[Machine]

    @classmethod
    def of(cls, count: int) -> "Fleet":
        rows = [ordered(number) for number in range(count)]
        return cls(rows, [machine_for(row) for row in rows])

    def snapshot(self, **changes: Any) -> FleetSnapshot:  # noqa: ANN401 - any field of the accounts
        """Its accounts; what a test wants otherwise, it says."""
        values: dict[str, Any] = {
            "environment": "local",
            "rows": tuple(self.rows),
            "ended": {},
            "in_hand": frozenset(),
            "wanted_images": {IMAGE: "hermes-base"},
            "stacks": stacks_of(self.rows),
            "machines": tuple(self.machines),
            "images": (Image(id=IMAGE, name="hermes-base-1", status=ImageStatus.READY, provider_image_id="p"),),
        }
        return FleetSnapshot(**(values | changes))


def stacks_of(rows: Iterable[Ordered]) -> dict[CellName, StackSnapshot]:
    """The stacks that hold just these machines."""
    held: dict[CellName, dict[Any, StackMachine]] = {}
    for row in rows:
        machine = StackMachine(row.instance.machine_id or "", row.server_type, row.image_id or "")
        held.setdefault(row.instance.cell, {})[row.instance.machine_name] = machine
    return {cell: StackSnapshot(machines) for cell, machines in held.items()}


def told(row: Ordered, **changes: Any) -> MachineSnapshot:  # noqa: ANN401 - any field of the account
    """A machine that says what it should."""
    return replace(MachineSnapshot(instance_id=row.instance.id, boot_id="b1", changed=()), **changes)


def recovered(number: int) -> Recovered:
    """Instance ``number`` as its machine remembers it."""
    row = ordered(number)
    instance = row.instance
    return Recovered(
        id=instance.id,
        user_id=instance.user_id,
        plan=instance.plan,
        status=InstanceStatus.RUNNING,
        cell=instance.cell,
        epoch=instance.epoch,
        machine_id=MachineId(f"m-{number}"),
        machine_name=instance.machine_name,
        server_type=row.server_type,
        region=row.region,
        image_id=row.image_id,
        created_at=AT,
        settings=InstanceSettings(),
        api_server_key="k" * 43,
        model_token_generation=1,
    )
