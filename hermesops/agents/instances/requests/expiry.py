"""Terminates agents after their days of grace, and returns machines that were kept for some days."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.steps import return_machine
from hermesops.agents.instances.steps.return_machine import Forget, Retire, ShrinkCell
from hermesops.base.fan_out import Limits, problems
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, drill_subject
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Operation, OperationKind
from hermesops.store.registry import Registry

_LIMITS = Limits(at_once=1, slow_after_s=600.0, within_s=3 * 3600.0)
"""One after the other; the last backup of a full data volume is proved within that."""


@dataclass(frozen=True)
class Due:
    """Terminations and returns of machines that are due.

    Attributes:
        leaves: Machines to return: an instance left them, or they were ordered for a change that was abandoned.
    """

    ends: tuple[Instance, ...]
    leaves: tuple[UnassignedMachine, ...]


def due_of(
    ends: Sequence[Instance],
    unassigned: Sequence[UnassignedMachine],
    busy: frozenset[InstanceId],
    *,
    now: datetime,
    keep_for: timedelta,
    drilled: frozenset[InstanceId] = frozenset(),
    rolls_out: bool = False,
) -> Due:
    """Choose the terminations and returns that are due. Pure.

    Args:
        unassigned: Machines that instances were on before, or were to be on next.
        drilled: Instances with a restore drill under way; the machine lent to it stays.
        rolls_out: Whether a rollout is under way; machines that are lent to no instance are its drill's.
    """
    lent = {MachineRole.DRILL: drilled}
    idle = [
        machine
        for machine in unassigned
        if (machine.instance_id and machine.instance_id not in lent.get(machine.role, busy))
        or (machine.instance_id is None and machine.role is MachineRole.DRILL and not rolls_out)
    ]
    goes = {MachineRole.REPLACEMENT, MachineRole.DRILL}
    leaves = tuple(
        machine
        for machine in idle
        if machine.role in goes or not machine.wanted or machine.created_at <= now - keep_for
    )
    return Due(tuple(instance for instance in ends if instance.id not in busy), leaves)


def terminator(
    requests: Callable[[], InstanceRequests], run: Callable[[Operation], Awaitable[str]], *, keeps_backup: bool
) -> Callable[[Instance], Awaitable[str]]:
    """Terminates an instance after its days of grace.

    Args:
        requests: Makes the requests, once an instance is due.
        run: Runs an operation to its end.
        keeps_backup: Whether a last backup is required first.
    """

    async def terminate(instance: Instance) -> str:
        reason = "its days of grace are over"
        return await run(await requests().terminate(instance.id, keeps_backup=keeps_backup, reason=reason))

    return terminate


@dataclass
class Upkeep:
    """Does what is due; may be repeated, and killed at any moment."""

    registry: Registry
    cells: CellStacks
    end: Callable[[Instance], Awaitable[object]]
    keep_for: timedelta

    def due(self) -> Due:
        """The terminations and returns that are due now."""
        unfinished = self.registry.operations.list(unfinished=True)
        busy = frozenset(operation.instance_id for operation in unfinished if operation.instance_id)
        drills = frozenset(operation.subject for operation in unfinished if operation.kind is OperationKind.DRILL)
        unassigned = self.registry.unassigned.list()
        lent = {row.instance_id for row in unassigned if row.role is MachineRole.DRILL and row.instance_id}
        drilled = frozenset(id_ for id_ in lent if drill_subject(id_) in drills)
        ends = self.registry.instances.past_grace()
        rolls_out = any(operation.kind is OperationKind.ROLLOUT for operation in unfinished)
        return due_of(
            ends,
            unassigned,
            busy,
            now=self.registry.now(),
            keep_for=self.keep_for,
            drilled=drilled,
            rolls_out=rolls_out,
        )

    async def apply(self, due: Due) -> dict[str, str]:
        """Do it, one after the other; by user or machine why it was not done, empty where it was."""
        ended = await problems({instance.title: instance for instance in due.ends}, self.end, _LIMITS)
        return ended | await problems({row.name: row for row in due.leaves}, self._leave, _LIMITS)

    async def _leave(self, row: UnassignedMachine) -> None:
        why = "kept long enough"
        for step in (Retire(row.name), ShrinkCell(row.name), Forget(row.name)):
            await return_machine.do(step, row, registry=self.registry, cells=self.cells, why=why)
