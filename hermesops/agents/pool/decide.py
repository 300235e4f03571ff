"""The warm pool of one cell: whether it is short, and the next step to fill it. Pure.

Machines are booted, checked and warmed up before a user needs one. A machine leaves the pool by a claim, or is deleted;
none returns.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from hermesops.errors import Hint, UnavailableError
from hermesops.model.fleet.cell import Cell
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus, pool_subject
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Operation, Refused
from hermesops.model.plan import Plan
from hermesops.vendor.justavps.wire import MachineStatus

MOST_LOST = 3
"""After so many machines that did not become ready, another one is not tried."""


@dataclass(frozen=True)
class Target:
    """What a cell's pool should hold for one plan."""

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
        held: The pool's machines, oldest first, and others of the cell that are marked for deletion.
        lost: Why machines of this run did not become ready.
    """

    cell: CellName
    targets: tuple[Target, ...]
    held: tuple[PoolMachine, ...]
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
    """Run the cell's stack: it makes what is ordered and deletes what is marked."""


@dataclass(frozen=True)
class Record:
    """Write the vendor's ids of machines into the registry."""

    machines: tuple[tuple[MachineName, MachineId], ...]


@dataclass(frozen=True)
class MakeReady:
    """Wait for machines, check them, and warm them up."""

    names: tuple[MachineName, ...]


Step = Retire | Forget | OrderMachines | ApplyCell | Record | MakeReady


def decide(seen: PoolObservation) -> Step | Done | Refused:
    """The next step towards a pool of the configured size, of healthy machines."""
    if retiring := _to_retire(seen):
        return Retire(tuple(retiring))
    leaving = [held for held in seen.held if not held.row.wanted]
    if gone := [held.row.name for held in leaving if held.machine_id is None and not held.in_stack]:
        return Forget(tuple(gone))
    if len(seen.lost) >= MOST_LOST:
        if leaving:
            return ApplyCell()
        return Refused(
            UnavailableError(
                f"{len(seen.lost)} machines for the pool of {seen.cell} did not get ready, the last: {seen.lost[-1]}",
                hint=Hint(("image", "build"), "makes one that is sound;", ("job", "run", "pools"), "goes on"),
            )
        )
    if (order := _missing(seen)) is not None:
        return order
    wanted = [held for held in seen.held if held.row.wanted]
    if leaving or any(held.machine_id is None or not held.in_stack for held in wanted):
        return ApplyCell()
    if unknown := [held for held in wanted if held.machine_id and held.row.machine_id != held.machine_id]:
        return Record(tuple((held.row.name, held.machine_id) for held in unknown if held.machine_id))
    if growing := [held for held in wanted if held.row.status is UnassignedStatus.PREPARING or held.is_silent]:
        return MakeReady(tuple(held.row.name for held in growing))
    return Done(_outcome(seen))


def _to_retire(seen: PoolObservation) -> list[tuple[MachineName, str]]:
    kept: list[PoolMachine] = []
    retiring = []
    targets = {target.plan: target for target in seen.targets}
    for held in (held for held in seen.held if held.row.wanted):
        why = _unfit(held, targets.get(held.row.plan))
        if why:
            retiring.append((held.row.name, why))
        else:
            kept.append(held)
    for plan in Plan:
        of_plan = [held for held in kept if held.row.plan is plan]
        size = targets[plan].size if plan in targets else 0
        # Delete unready machines first, then the oldest: the newest was checked last.
        of_plan.sort(key=lambda held: held.row.status is UnassignedStatus.READY)
        retiring += [
            (held.row.name, f"the pool of {plan} is {size}") for held in of_plan[: max(0, len(of_plan) - size)]
        ]
    return retiring


def _unfit(held: PoolMachine, target: Target | None) -> str:
    """Why a machine cannot be in the pool; empty when it can."""
    row = held.row
    if held.belongs_to is not None:
        return f"it says that it is instance {held.belongs_to}'s"
    if held.status is MachineStatus.ERROR:
        return "JustAVPS says that it is in error"
    if held.machine_id is None and (row.machine_id is not None or held.in_stack):
        return "JustAVPS lists it no more"
    if row.machine_id is not None and held.machine_id != row.machine_id:
        return f"another machine has its name: {held.machine_id}"
    if target is not None and row.image_id != target.image_id:
        return f"its image {row.image_id} is not the one that machines boot from now"
    if target is not None and row.server_type != target.server_type:
        return f"plan {row.plan} is a {target.server_type} now"
    return ""


def _missing(seen: PoolObservation) -> OrderMachines | None:
    for target in seen.targets:
        there = sum(held.row.wanted and held.row.plan is target.plan for held in seen.held)
        if (count := min(target.size - there, seen.room)) > 0:
            return OrderMachines(target, count)
    return None


def _outcome(seen: PoolObservation) -> str:
    if not seen.targets:
        return f"no pool is wanted in {seen.cell}"
    parts = []
    for target in seen.targets:
        there = sum(held.row.plan is target.plan and held.row.wanted for held in seen.held)
        lacking = f" of {target.size}, and {seen.cell} is full" if there < target.size else ""
        parts.append(f"{there} {target.plan}{lacking}")
    return f"the pool of {seen.cell} is ready: {', '.join(parts)}"


def _machines(count: int, plan: str = "") -> str:
    return f"{count}{f' {plan}' if plan else ''} machine{'' if count == 1 else 's'}"


def describe(step: Step, seen: PoolObservation) -> str:
    """The step in a few words."""
    match step:
        case Retire(machines=machines):
            return f"retiring {len(machines)} of the pool of {seen.cell}: {machines[0][1]}"
        case Forget(names=names):
            return f"forgetting {_machines(len(names))} of {seen.cell}: gone at JustAVPS"
        case OrderMachines(target=target, count=count):
            instead = f", instead of one that did not get ready: {seen.lost[-1]}" if seen.lost else ""
            return f"ordering {_machines(count, target.plan)} for the pool of {seen.cell}{instead}"
        case ApplyCell():
            return f"applying the stack of {seen.cell}"
        case Record(machines=recorded):
            return f"recording {_machines(len(recorded))} of {seen.cell}"
        case MakeReady(names=names):
            return f"checking and warming up {_machines(len(names))} of {seen.cell}"
        case _ as never:
            assert_never(never)


def ready_for(unassigned: Sequence[UnassignedMachine], target: Target, *, region: str) -> list[UnassignedMachine]:
    """The machines of pools that a new instance may get, the oldest first."""
    return [
        row
        for row in sorted(unassigned, key=lambda one: (one.created_at, one.name))
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
    wanted = {target.plan: target for target in targets}
    for plan in Plan:
        held = [row for row in pool if row.plan is plan]
        target = wanted.get(plan)
        if target is None or target.image_id is None:
            if target is None and held:
                return True
            continue
        stale = any((one.image_id, one.server_type) != (target.image_id, target.server_type) for one in held)
        if stale or len(held) > target.size or (len(held) < target.size and room):
            return True
    return False


def is_at_rest(fills: Sequence[Operation], now: datetime) -> bool:
    """Whether no fill of a pool runs, or has just ended."""
    return all(fill.status.has_ended and fill.updated_at <= now - _REST for fill in fills)


@dataclass(frozen=True)
class PoolSizes:
    """What settings and images say of every cell's pool.

    Attributes:
        image_id: What new machines boot from; ``None`` when there is none, and then nothing is made or given up.
    """

    of_plan: Mapping[Plan, int]
    server_types: Mapping[Plan, str]
    image_id: ImageId | None
    cell_size: int

    def targets(self, cell: Cell) -> list[Target]:
        """What a cell's pool should hold."""
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
        """Cells whose pools are not what they should be, as far as rows tell, and that nobody fills."""
        if not any(self.of_plan.values()) and not any(one.role is MachineRole.WARM for one in unassigned):
            return []
        return [
            cell.name
            for cell in cells
            if is_at_rest([one for one in fills if one.subject == pool_subject(cell.name)], now)
            and is_short(
                self.targets(cell),
                [one for one in unassigned if one.cell == cell.name],
                room=max(0, self.cell_size - cell.machines),
            )
        ]
