"""The warm pool of one cell: whether it is short, and the next step to fill it. Pure.

Machines are booted, checked and warmed up before a user needs one; a claim takes one whole. None is given back: what
leaves the pool otherwise than by a claim is deleted.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import assert_never

from hermesops.errors import Hint, UnavailableError
from hermesops.justavps.wire import MachineStatus
from hermesops.model.cell import Cell
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Operation, Refused
from hermesops.model.plan import Plan
from hermesops.model.spare import Purpose, Spare, SpareStatus, pool_subject

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

    spare: Spare
    machine_id: MachineId | None = None
    status: MachineStatus | None = None
    in_stack: bool = False
    is_silent: bool = False
    belongs_to: InstanceId | None = None


@dataclass(frozen=True)
class PoolObservation:
    """Everything known about a cell's pool at one moment.

    Attributes:
        held: The pool's machines, oldest first, and others of the cell that are marked for deletion.
        lost: Why machines that this run made did not become ready.
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
    """The next step towards the pool that settings want, of healthy machines."""
    if retiring := _to_retire(seen):
        return Retire(tuple(retiring))
    leaving = [held for held in seen.held if not held.spare.wanted]
    if gone := [held.spare.name for held in leaving if held.machine_id is None and not held.in_stack]:
        return Forget(tuple(gone))
    if len(seen.lost) >= MOST_LOST:
        if leaving:
            return ApplyCell()
        return Refused(
            UnavailableError(
                f"{len(seen.lost)} machines for the pool of {seen.cell} did not get ready, the last: {seen.lost[-1]}",
                hint=Hint(("image", "build"), "makes one that is sound;", ("pool", "refill"), "goes on"),
            )
        )
    if (order := _missing(seen)) is not None:
        return order
    wanted = [held for held in seen.held if held.spare.wanted]
    if leaving or any(held.machine_id is None or not held.in_stack for held in wanted):
        return ApplyCell()
    if unknown := [held for held in wanted if held.machine_id and held.spare.machine_id != held.machine_id]:
        return Record(tuple((held.spare.name, held.machine_id) for held in unknown if held.machine_id))
    if growing := [held for held in wanted if held.spare.status is SpareStatus.GROWING or held.is_silent]:
        return MakeReady(tuple(held.spare.name for held in growing))
    return Done(_outcome(seen))


def _to_retire(seen: PoolObservation) -> list[tuple[MachineName, str]]:
    kept: list[PoolMachine] = []
    retiring = []
    targets = {target.plan: target for target in seen.targets}
    for held in (held for held in seen.held if held.spare.wanted):
        why = _unfit(held, targets.get(held.spare.plan))
        if why:
            retiring.append((held.spare.name, why))
        else:
            kept.append(held)
    for plan in Plan:
        of_plan = [held for held in kept if held.spare.plan is plan]
        size = targets[plan].size if plan in targets else 0
        # What is not ready goes first, then the oldest: the newest was checked last.
        of_plan.sort(key=lambda held: held.spare.status is SpareStatus.READY)
        retiring += [
            (held.spare.name, f"the pool of {plan} is {size}") for held in of_plan[: max(0, len(of_plan) - size)]
        ]
    return retiring


def _unfit(held: PoolMachine, target: Target | None) -> str:
    """Why a machine cannot be in the pool; empty when it can."""
    spare = held.spare
    if held.belongs_to is not None:
        return f"it says that it is instance {held.belongs_to}'s"
    if held.status is MachineStatus.ERROR:
        return "JustAVPS says that it is in error"
    if held.machine_id is None and (spare.machine_id is not None or held.in_stack):
        return "JustAVPS lists it no more"
    if spare.machine_id is not None and held.machine_id != spare.machine_id:
        return f"another machine has its name: {held.machine_id}"
    if target is not None and spare.image_id != target.image_id:
        return f"its image {spare.image_id} is not the one that machines boot from now"
    if target is not None and spare.server_type != target.server_type:
        return f"plan {spare.plan} is a {target.server_type} now"
    return ""


def _missing(seen: PoolObservation) -> OrderMachines | None:
    for target in seen.targets:
        there = sum(held.spare.wanted and held.spare.plan is target.plan for held in seen.held)
        if (count := min(target.size - there, seen.room)) > 0:
            return OrderMachines(target, count)
    return None


def _outcome(seen: PoolObservation) -> str:
    if not seen.targets:
        return f"no pool is wanted in {seen.cell}"
    parts = []
    for target in seen.targets:
        there = sum(held.spare.plan is target.plan and held.spare.wanted for held in seen.held)
        lacking = f" of {target.size}, and {seen.cell} is full" if there < target.size else ""
        parts.append(f"{there} {target.plan}{lacking}")
    return f"the pool of {seen.cell} is ready: {', '.join(parts)}"


def describe(step: Step, seen: PoolObservation) -> str:
    """The step in a few words."""
    match step:
        case Retire(machines=machines):
            return f"retiring {len(machines)} of the pool of {seen.cell}: {machines[0][1]}"
        case Forget(names=names):
            return f"forgetting {len(names)} machines of {seen.cell} that are gone"
        case OrderMachines(target=target, count=count):
            return f"ordering {count} {target.plan} machines for the pool of {seen.cell}"
        case ApplyCell():
            return f"making and destroying machines in {seen.cell}"
        case Record(machines=recorded):
            return f"recording {len(recorded)} machines of {seen.cell}"
        case MakeReady(names=names):
            return f"checking and warming up {len(names)} machines of {seen.cell}"
        case _ as never:
            assert_never(never)


def ready_for(spares: Sequence[Spare], target: Target, *, region: str) -> list[Spare]:
    """The machines of pools that a new instance may get, the oldest first."""
    return [
        spare
        for spare in sorted(spares, key=lambda one: (one.created_at, one.name))
        if spare.wanted
        and spare.status is SpareStatus.READY
        and (spare.plan, spare.region, spare.image_id) == (target.plan, region, target.image_id)
        and spare.server_type == target.server_type
    ]


_REST = timedelta(minutes=10)
"""How long a pool is left alone after it was filled, or that was tried: what was refused will be refused again."""


def is_short(targets: Sequence[Target], spares: Sequence[Spare], *, room: int) -> bool:
    """Whether the rows alone say that a pool has to be filled, shrunk or renewed.

    Args:
        spares: The cell's machines beside those of instances.
    """
    pool = [spare for spare in spares if spare.purpose is Purpose.POOL]
    if any(not spare.wanted or spare.status is not SpareStatus.READY for spare in pool):
        return True
    wanted = {target.plan: target for target in targets}
    for plan in Plan:
        held = [spare for spare in pool if spare.plan is plan]
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
        self, cells: Collection[Cell], spares: Sequence[Spare], fills: Sequence[Operation], now: datetime
    ) -> list[CellName]:
        """Cells whose pools are not what they should be, as far as rows tell, and that nobody fills."""
        if not any(self.of_plan.values()) and not any(one.purpose is Purpose.POOL for one in spares):
            return []
        return [
            cell.name
            for cell in cells
            if is_at_rest([one for one in fills if one.subject == pool_subject(cell.name)], now)
            and is_short(
                self.targets(cell),
                [one for one in spares if one.cell == cell.name],
                room=max(0, self.cell_size - cell.machines),
            )
        ]
