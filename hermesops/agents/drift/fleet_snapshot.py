"""State of a fleet by registry, stacks, vendor and machines, as plain data. Pure: no clock, no network, no database."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from hermesops.errors import Hint
from hermesops.model.check import Check
from hermesops.model.fleet.instance import Instance
from hermesops.model.fleet.overview import Ordered
from hermesops.model.fleet.unassigned_machine import UnassignedMachine
from hermesops.model.ids import (
    CellName,
    ImageId,
    InstanceId,
    MachineId,
    MachineName,
    is_machine_name,
    platform_machine_name,
)
from hermesops.model.operation import Operation, OperationKind
from hermesops.vendor.justavps.ordering import newest_named
from hermesops.vendor.justavps.wire import Image, Machine, MachineStatus


@dataclass(frozen=True)
class StackMachine:
    """A machine as a stack's state has it; fields are empty where the state says nothing."""

    id: str
    server_type: str
    image_id: str

    @classmethod
    def of(cls, resource: Mapping[str, Any]) -> "StackMachine":
        """Read a resource of the state."""
        inputs = resource.get("inputs") or {}
        return cls(
            str(resource.get("id") or ""), str(inputs.get("server_type") or ""), str(inputs.get("image_id") or "")
        )


@dataclass(frozen=True)
class StackSnapshot:
    """One cell's stack.

    Attributes:
        interrupted: Names of machines that the last run of the stack had begun and not finished when it ended.
        unseen: Why the state could not be read; empty when it was.
        hint: Next step, from the error of the reading.
    """

    machines: Mapping[MachineName, StackMachine] = field(default_factory=dict)
    interrupted: tuple[str, ...] = ()
    unseen: str = ""
    hint: Hint = field(default_factory=Hint)


@dataclass(frozen=True)
class MachineSnapshot:
    """State of one machine by its own answers.

    Attributes:
        silence: Why it said nothing; empty when it answered.
        instance_id: The instance that it reports; ``None`` when it reports none.
        is_current: Whether its payload equals the registry's, and was applied in full.
        changed: Tasks of the roles that would change something there; ``None`` when they were not checked.
        roles_unseen: Why the roles could not be checked; empty when they were.
        checks: Those that failed or could not be done.
    """

    silence: str = ""
    instance_id: InstanceId | None = None
    is_current: bool = True
    boot_id: str = ""
    changed: tuple[str, ...] | None = None
    roles_unseen: str = ""
    checks: tuple[Check, ...] = ()


@dataclass(frozen=True)
class Rebooted:
    """A machine that has booted since it was last observed."""

    since: datetime


@dataclass(frozen=True)
class StoppedOperation:
    """An operation that has not ended and that no process works on.

    Attributes:
        problem: Why the last attempt stopped; empty when its process was killed.
    """

    operation: Operation
    problem: str = ""


@dataclass(frozen=True)
class FleetSnapshot:
    """The state of a fleet by all four sources.

    Attributes:
        ended: Machines of terminated instances, by name.
        in_hand: Leased subjects: their rows and machines may differ while the work lasts.
        wanted_images: Each image new machines boot from, by id, with its name.
        answers: Answers of the machines that were asked.
        rebooted: Machines that had another boot id when they were last observed.
        passing: Names of temporary machines, of image builds.
        stopped: Operations that have not ended and that no process works on.
    """

    environment: str
    rows: Sequence[Ordered]
    ended: Mapping[MachineName, InstanceId]
    in_hand: frozenset[str]
    wanted_images: Mapping[ImageId, str]
    stacks: Mapping[CellName, StackSnapshot]
    machines: Sequence[Machine]
    images: Sequence[Image]
    answers: Mapping[MachineId, MachineSnapshot] = field(default_factory=dict)
    rebooted: Mapping[MachineId, Rebooted] = field(default_factory=dict)
    passing: frozenset[str] = frozenset()
    unassigned: Sequence[UnassignedMachine] = ()
    backed_up: frozenset[InstanceId] = frozenset()
    stopped: Sequence[StoppedOperation] = ()

    @cached_property
    def rented(self) -> "Rented":
        """The vendor's machines, found by id and by name."""
        return Rented(self.machines)

    def machine_of(self, row: Ordered) -> Machine | None:
        """The machine an instance is on."""
        return self.rented.of(row.instance)

    @cached_property
    def orphans(self) -> Sequence[Machine]:
        """Machines with a name of this environment that no row names, without those in ``passing``."""
        orphans = self.rented.orphans(self.rows, self.unassigned, self.environment)
        return [machine for machine in orphans if machine.name not in self.passing]

    @cached_property
    def unknown(self) -> Sequence[Machine]:
        """Other machines that no row names: their names are not of this environment."""
        ours = {machine.id for machine in self.orphans}
        known = {*self.passing, platform_machine_name(self.environment)}
        others = self.rented.without_row(self.rows, self.unassigned)
        return [machine for machine in others if machine.id not in ours and machine.name not in known]

    @cached_property
    def changing(self) -> Mapping[InstanceId, frozenset[OperationKind]]:
        """Instances that a stopped operation left half changed, with its kind; a backup changes nothing."""
        kinds: dict[InstanceId, frozenset[OperationKind]] = {}
        for operation in (stopped.operation for stopped in self.stopped):
            if operation.instance_id and operation.kind is not OperationKind.BACKUP:
                kinds[operation.instance_id] = kinds.get(operation.instance_id, frozenset()) | {operation.kind}
        return kinds


class Rented:
    """The vendor's list.

    Args:
        machines: As listed; deleted ones do not count.
    """

    def __init__(self, machines: Iterable[Machine]) -> None:
        self._by_id = {machine.id: machine for machine in machines if machine.status is not MachineStatus.DELETED}
        self._by_name: dict[str, list[Machine]] = defaultdict(list)
        for machine in self._by_id.values():
            self._by_name[machine.name].append(machine)

    def has(self, name: str) -> bool:
        """Whether one of that name is rented."""
        return name in self._by_name

    def of(self, instance: Instance) -> Machine | None:
        """The machine an instance is on."""
        return self.named(instance.machine_name, instance.machine_id)

    def named(self, name: MachineName, machine_id: MachineId | None) -> Machine | None:
        """The machine of a row: the one of its recorded id, else the newest of its name.

        A machine of another name is not the row's, whatever id the row has: believing it would make an orphan of the
        instance's own machine, and delete the only copy of its memory.
        """
        recorded = self._by_id.get(machine_id or "")
        if recorded is not None and recorded.name == name:
            return recorded
        return newest_named(self._by_name.get(name, ()), name)

    def orphans(
        self, rows: Iterable[Ordered], unassigned: Iterable[UnassignedMachine], environment: str
    ) -> list[Machine]:
        """Machines with a name of the environment that no row names."""
        return [machine for machine in self.without_row(rows, unassigned) if is_machine_name(machine.name, environment)]

    def without_row(self, rows: Iterable[Ordered], unassigned: Iterable[UnassignedMachine]) -> list[Machine]:
        """Machines of any name that no row names."""
        ours = [
            *((row.instance.machine_name, row.instance.machine_id) for row in rows),
            *((row.name, row.machine_id) for row in unassigned),
        ]
        assigned = {machine.id for name, machine_id in ours if (machine := self.named(name, machine_id))}
        return [machine for machine in self._by_id.values() if machine.id not in assigned]
