"""The warm pool of one cell: whether it is short, and the next step to fill it. Pure.

Machines are booted, checked and warmed up before a user needs one. A machine leaves the pool by a claim, or is deleted;
none returns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from hermesops.base.narration import counted
from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Operation, Refused
from hermesops.model.plan import Plan
from hermesops.vendor.justavps.wire import MachineStatus

MOST_LOST = 3
"""Machines of one run that may fail to become ready before the run is refused."""


@dataclass(frozen=True)
class Target:
    """Configured pool of a cell for one plan: number and kind of its machines."""

    plan: Plan
    size: int
    server_type: str
    image_id: ImageId | None


@dataclass(frozen=True)
class PoolMachine:
    """A pool machine of the cell at one moment.

    Attributes:
        machine_id: The vendor's; ``None`` when it lists none of that name.
        is_silent: Whether hermes-node does not answer; ``False`` for machines that are not up.
        belongs_to: The instance that it reports; ``None`` for none, or when it was not asked.
    """

    row: UnassignedMachine
    machine_id: MachineId | None = None
    status: MachineStatus | None = None
    in_stack: bool = False
    is_silent: bool = False
    belongs_to: InstanceId | None = None


@dataclass(frozen=True)
class PoolObservation:
    """The observed state of a cell's pool.

    Attributes:
        machines: The pool's machines, oldest first, and others of the cell that are marked for deletion.
        lost: Why machines of this run did not become ready.
    """

    cell: CellName
    targets: tuple[Target, ...]
    machines: tuple[PoolMachine, ...]
    room: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retire:
    """Mark machines for deletion, each for a reason."""

    machines: tuple[tuple[MachineName, str], ...]


@dataclass(frozen=True)
class Forget:
    """Delete the rows of machines that are gone."""

    names: tuple[MachineName, ...]


@dataclass(frozen=True)
class OrderMachines:
    """Write the rows of more machines."""

    target: Target
    count: int


@dataclass(frozen=True)
class ApplyCell:
    """Run the cell's stack: it creates ordered machines and deletes marked ones."""


@dataclass(frozen=True)
class Record:
    """Write the vendor's ids of machines into the registry."""

    machines: tuple[tuple[MachineName, MachineId], ...]


@dataclass(frozen=True)
class MakeReady:
    """Wait for machines, check them, and warm them up."""

    names: tuple[MachineName, ...]


Step = Retire | Forget | OrderMachines | ApplyCell | Record | MakeReady


def decide(observation: PoolObservation) -> Step | Done | Refused:
    """The next step towards a pool of the configured size, of healthy machines."""
    if retiring := _to_retire(observation):
        return Retire(tuple(retiring))
    leaving = [machine for machine in observation.machines if not machine.row.wanted]
    if gone := [machine.row.name for machine in leaving if machine.machine_id is None and not machine.in_stack]:
        return Forget(tuple(gone))
    if len(observation.lost) >= MOST_LOST:
        if leaving:
            return ApplyCell()
        return Refused(
            UnavailableError(
                f"{counted(len(observation.lost), 'machine')} for the pool of {observation.cell} did not become ready; "
                f"the last: {observation.lost[-1]}",
                hint=Hint(("image", "build"), "builds a new image;", ("job", "run", "pools"), "goes on"),
            )
        )
    if (order := _missing(observation)) is not None:
        return order
    staying = [machine for machine in observation.machines if machine.row.wanted]
    if leaving or any(machine.machine_id is None or not machine.in_stack for machine in staying):
        return ApplyCell()
    if unknown := [
        machine for machine in staying if machine.machine_id and machine.row.machine_id != machine.machine_id
    ]:
        return Record(tuple((machine.row.name, machine.machine_id) for machine in unknown if machine.machine_id))
    if growing := [
        machine for machine in staying if machine.row.status is UnassignedStatus.PREPARING or machine.is_silent
    ]:
        return MakeReady(tuple(machine.row.name for machine in growing))
    return Done(_outcome(observation))


def _to_retire(observation: PoolObservation) -> list[tuple[MachineName, str]]:
    fitting: list[PoolMachine] = []
    retiring = []
    targets = {target.plan: target for target in observation.targets}
    for machine in (machine for machine in observation.machines if machine.row.wanted):
        why = _unfit(machine, targets.get(machine.row.plan))
        if why:
            retiring.append((machine.row.name, why))
        else:
            fitting.append(machine)
    for plan in Plan:
        of_plan = [machine for machine in fitting if machine.row.plan is plan]
        size = targets[plan].size if plan in targets else 0
        # Delete unready machines first, then the oldest: the newest was checked last.
        of_plan.sort(key=lambda machine: machine.row.status is UnassignedStatus.READY)
        retiring += [
            (machine.row.name, f"the pool size for plan {plan} is {size}")
            for machine in of_plan[: max(0, len(of_plan) - size)]
        ]
    return retiring


def _unfit(machine: PoolMachine, target: Target | None) -> str:
    """Why a machine cannot be in the pool; empty when it can."""
    row = machine.row
    if machine.belongs_to is not None:
        return f"it reports instance {machine.belongs_to}"
    if machine.status is MachineStatus.ERROR:
        return "JustAVPS status: error"
    if machine.machine_id is None and (row.machine_id is not None or machine.in_stack):
        return "JustAVPS no longer lists it"
    if row.machine_id is not None and machine.machine_id != row.machine_id:
        return f"another machine has its name: {machine.machine_id}"
    if target is not None and row.image_id != target.image_id:
        return f"its image {row.image_id} is not the current one"
    if target is not None and row.server_type != target.server_type:
        return f"plan {row.plan} uses server type {target.server_type} now"
    return ""


def _missing(observation: PoolObservation) -> OrderMachines | None:
    for target in observation.targets:
        there = sum(machine.row.wanted and machine.row.plan is target.plan for machine in observation.machines)
        if (count := min(target.size - there, observation.room)) > 0:
            return OrderMachines(target, count)
    return None


def _outcome(observation: PoolObservation) -> str:
    if not observation.targets:
        return f"no pool is configured for {observation.cell}"
    parts = []
    for target in observation.targets:
        there = sum(machine.row.plan is target.plan and machine.row.wanted for machine in observation.machines)
        lacking = f" of {target.size} ({observation.cell} is full)" if there < target.size else ""
        parts.append(f"{there} {target.plan}{lacking}")
    return f"the pool of {observation.cell} is ready: {', '.join(parts)}"


def _machines(count: int, plan: str = "") -> str:
    return counted(count, f"{plan} machine" if plan else "machine")


def describe(step: Step, observation: PoolObservation) -> str:
    """Describe a step in one line, for narration and for the operation's row."""
    match step:
        case Retire(machines=machines):
            return f"retiring {_machines(len(machines))} of the pool of {observation.cell}: {machines[0][1]}"
        case Forget(names=names):
            return f"deleting {counted(len(names), 'row')} of {observation.cell} without a machine at JustAVPS"
        case OrderMachines(target=target, count=count):
            instead = f", replacing one that did not become ready: {observation.lost[-1]}" if observation.lost else ""
            return f"ordering {_machines(count, target.plan)} for the pool of {observation.cell}{instead}"
        case ApplyCell():
            return f"applying the stack of {observation.cell}"
        case Record(machines=recorded):
            return f"recording {_machines(len(recorded))} of {observation.cell}"
        case MakeReady(names=names):
            return f"checking and warming up {_machines(len(names))} of {observation.cell}"
        case _ as never:
            assert_never(never)


def ready_for(unassigned: Sequence[UnassignedMachine], target: Target, *, region: str) -> list[UnassignedMachine]:
    """The machines of pools that a new instance may get, the oldest first."""
    return [
        row
        for row in sorted(unassigned, key=lambda row: (row.created_at, row.name))
        if row.wanted
        and row.status is UnassignedStatus.READY
        and (row.plan, row.region, row.image_id) == (target.plan, region, target.image_id)
        and row.server_type == target.server_type
    ]


_REST = timedelta(minutes=10)
"""How long a pool rests after a filling or an attempt: a refused one would be refused again."""


def is_short(targets: Sequence[Target], unassigned: Sequence[UnassignedMachine], *, room: int) -> bool:
    """Whether rows alone show that a pool must be filled, shrunk or renewed.

    Args:
        unassigned: The cell's machines beside those of instances.
    """
    pool = [row for row in unassigned if row.role is MachineRole.WARM]
    if any(not row.wanted or row.status is not UnassignedStatus.READY for row in pool):
        return True
    by_plan = {target.plan: target for target in targets}
    for plan in Plan:
        rows = [row for row in pool if row.plan is plan]
        target = by_plan.get(plan)
        if target is None or target.image_id is None:
            if target is None and rows:
                return True
            continue
        stale = any((row.image_id, row.server_type) != (target.image_id, target.server_type) for row in rows)
        if stale or len(rows) > target.size or (len(rows) < target.size and room):
            return True
    return False


def is_at_rest(fills: Sequence[Operation], now: datetime) -> bool:
    """Whether no fill of a pool runs, or has just ended."""
    return all(fill.status.has_ended and fill.updated_at <= now - _REST for fill in fills)


@dataclass(frozen=True)
class PoolSizes:
    """Configured pool of every cell, from settings and the latest image.

    Attributes:
        image_id: Image of new machines; ``None`` while there is none: then no machine is created or deleted.
    """

    of_plan: Mapping[Plan, int]
    server_types: Mapping[Plan, str]
    image_id: ImageId | None
    cell_size: int

    def targets(self, cell: Cell) -> list[Target]:
        """Choose the plans that a cell takes and that have a pool, sorted by plan."""
        return [
            Target(plan, size, self.server_types[plan], self.image_id)
            for plan, size in sorted(self.of_plan.items())
            if size and cell.only_plan in {None, plan}
        ]

    def short_cells(
        self,
        cells: Collection[Cell],
        unassigned: Sequence[UnassignedMachine],
        fills: Sequence[Operation],
        now: datetime,
    ) -> list[CellName]:
        """Choose cells whose pools differ from their configured size, by rows alone, and that no operation fills."""
        if not any(self.of_plan.values()) and not any(row.role is MachineRole.WARM for row in unassigned):
            return []
        return [
            cell.name
            for cell in cells
            if is_at_rest([fill for fill in fills if fill.subject == pool_subject(cell.name)], now)
            and is_short(
                self.targets(cell),
                [row for row in unassigned if row.cell == cell.name],
                room=max(0, self.cell_size - cell.machines),
            )
        ]
