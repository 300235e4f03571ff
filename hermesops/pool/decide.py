"""The warm pool of one cell: decide what the next step is. Pure.

Machines are booted, found to be well and warmed up before anybody wants one; whoever comes takes one whole. None is
ever given back: what leaves the pool otherwise than by a claim is destroyed.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import assert_never

from hermesops.errors import UnavailableError
from hermesops.justavps.wire import MachineStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Done, Refused
from hermesops.model.plan import Plan
from hermesops.model.spare import Spare, SpareStatus

MOST_LOST = 3
"""So many machines that did not become well say that another one will not either."""


@dataclass(frozen=True)
class Target:
    """What a cell's pool should hold for one plan.

    Attributes:
        size: How many machines.
        server_type: Of each.
        image_id: What they boot from.
    """

    plan: Plan
    size: int
    server_type: str
    image_id: ImageId | None


@dataclass(frozen=True)
class PoolMachine:
    """A spare machine of the cell at one moment.

    Attributes:
        machine_id: The vendor's; ``None`` when it lists none of that name.
        status: As the vendor calls it.
        in_stack: Whether the cell's state has it.
        is_silent: Whether hermes-node on it does not answer; not asked of machines that are not up.
        belongs_to: Whose it is by its own account; ``None`` when none is known, or when it was not asked.
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
        held: The pool's machines, oldest first, and others of the cell that were given up.
        room: How many machines more the cell takes.
        lost: Why machines that were made for it did not become well, in this run.
    """

    cell: CellName
    targets: tuple[Target, ...]
    held: tuple[PoolMachine, ...]
    room: int
    lost: tuple[str, ...] = ()


@dataclass(frozen=True)
class Retire:
    """Give machines up, each for a reason."""

    machines: tuple[tuple[MachineName, str], ...]


@dataclass(frozen=True)
class Forget:
    """End the rows of machines that are gone."""

    names: tuple[MachineName, ...]


@dataclass(frozen=True)
class OrderMachines:
    """Write the rows of more machines."""

    target: Target
    count: int


@dataclass(frozen=True)
class ApplyCell:
    """Run the cell's stack: it makes what is ordered and destroys what was given up."""


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
    """The next step towards a pool that is what settings say, of machines that are well."""
    if retiring := _to_retire(seen):
        return Retire(tuple(retiring))
    if gone := [held.spare.name for held in seen.held if _is_gone(held)]:
        return Forget(tuple(gone))
    if len(seen.lost) >= MOST_LOST:
        if any(not held.spare.wanted for held in seen.held):
            return ApplyCell()
        return Refused(
            UnavailableError(
                f"{len(seen.lost)} machines for the pool of {seen.cell} did not become well, the last: {seen.lost[-1]}",
                hint="hermesops image build makes one that is sound; hermesops pool refill goes on",
            )
        )
    if (order := _missing(seen)) is not None:
        return order
    if any(_needs_run(held) for held in seen.held):
        return ApplyCell()
    wanted = [held for held in seen.held if held.spare.wanted]
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
        # What is not ready goes first, then what waited longest: the newest was looked at last.
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


def _is_gone(held: PoolMachine) -> bool:
    return not held.spare.wanted and held.machine_id is None and not held.in_stack


def _needs_run(held: PoolMachine) -> bool:
    if held.spare.wanted:
        return held.machine_id is None or not held.in_stack
    return True  # those that are gone for good have been forgotten before


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
            return f"giving up {len(machines)} of the pool of {seen.cell}: {machines[0][1]}"
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
    """The machines of pools that a newcomer may be given, the one that has waited longest first."""
    return [
        spare
        for spare in sorted(spares, key=lambda one: (one.created_at, one.name))
        if spare.wanted
        and spare.status is SpareStatus.READY
        and (spare.plan, spare.region, spare.image_id) == (target.plan, region, target.image_id)
        and spare.server_type == target.server_type
    ]
