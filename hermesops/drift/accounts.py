"""The four accounts that are held against each other, as plain data. Pure: no clock, no network, no database."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import Any

from hermesops.justavps.ordering import newest_named
from hermesops.justavps.wire import Image, Machine, MachineStatus
from hermesops.model.check import Check
from hermesops.model.fleet import Ordered
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName, is_machine_name


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
class StackAccount:
    """One cell's stack.

    Attributes:
        interrupted: Names of machines with which a run of the stack was not done when it ended.
        unseen: Why the state could not be read; empty when it was.
    """

    machines: Mapping[MachineName, StackMachine] = field(default_factory=dict)
    interrupted: tuple[str, ...] = ()
    unseen: str = ""


@dataclass(frozen=True)
class MachineAccount:
    """What one machine says of itself.

    Attributes:
        silence: Why it said nothing; empty when it answered.
        instance_id: Whose it is by its own account; ``None`` when it is nobody's.
        is_current: Whether it was handed what the registry says, in full.
        boot_id: Of its present boot; empty when it is not known.
        changed: Tasks of the roles that would change something there; ``None`` when that was not looked at.
        roles_unseen: Why the roles could not be checked; empty when they were.
        checks: Everything that verification found not to hold, or could not see.
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
    """A machine that has booted since it was last looked at."""

    since: datetime


@dataclass(frozen=True)
class Accounts:
    """Everything that is compared.

    Attributes:
        environment: Name of the environment; part of machines' names.
        rows: The registry's.
        ended: Machines of terminated instances, by name.
        in_hand: Subjects that somebody works on right now: their rows and machines may differ for a while.
        wanted_images: Each image new machines boot from, by id, with its name.
        stacks: The states of cells.
        machines: The vendor's list.
        images: The vendor's images.
        told: What machines say of themselves; those not asked are missing.
        rebooted: Machines that were seen with another boot before.
        passing: Machines that come and go by themselves (of image builds), by name.
    """

    environment: str
    rows: Sequence[Ordered]
    ended: Mapping[MachineName, InstanceId]
    in_hand: frozenset[str]
    wanted_images: Mapping[ImageId, str]
    stacks: Mapping[CellName, StackAccount]
    machines: Sequence[Machine]
    images: Sequence[Image]
    told: Mapping[MachineId, MachineAccount] = field(default_factory=dict)
    rebooted: Mapping[MachineId, Rebooted] = field(default_factory=dict)
    passing: frozenset[str] = frozenset()

    @cached_property
    def by_id(self) -> Mapping[str, Machine]:
        """The vendor's machines that are not deleted, by id."""
        return {machine.id: machine for machine in self.machines if machine.status is not MachineStatus.DELETED}

    @cached_property
    def by_name(self) -> Mapping[str, Sequence[Machine]]:
        """The same by name; the vendor lets several have one."""
        named: dict[str, list[Machine]] = defaultdict(list)
        for machine in self.by_id.values():
            named[machine.name].append(machine)
        return named

    def machine_of(self, row: Ordered) -> Machine | None:
        """The machine an instance is on: the one of its recorded id, else the newest of its name."""
        recorded = self.by_id.get(row.instance.machine_id or "")
        return recorded or newest_named(self.by_name.get(row.instance.machine_name, ()), row.instance.machine_name)

    @cached_property
    def orphans(self) -> Sequence[Machine]:
        """Machines named by us in this environment that no living instance is on."""
        kept = {machine.id for row in self.rows if (machine := self.machine_of(row))}
        return [
            machine
            for machine in self.by_id.values()
            if machine.id not in kept
            and machine.name not in self.passing
            and is_machine_name(machine.name, self.environment)
        ]
