"""A world of one user that fits into a test: machines, nodes, gateways, backups and rows, as lifecycle sees them.

It refuses what no world may do: two gateways on one state, a gateway on a state that is not the user's, a machine lost
with the only copy of a state.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from hermesops.agents.cells.stack.stacks import CellStacks
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.releases.transfer import ReleaseTransfer
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.access.certificate import MachineNames
from hermesops.model.fleet.cell import Cell, Placement
from hermesops.model.fleet.health import GatewayHealth, NodeState
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.fleet.unassigned_machine import MachineRole, UnassignedMachine, UnassignedStatus
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineId, MachineName
from hermesops.model.operation import Lease
from hermesops.model.plan import Plan
from hermesops.model.recovery.backup import Backup
from hermesops.model.recovery.state import Part, State
from hermesops.model.rollout.release import ReleaseId
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fakes.instances import ADA
from tests.support.fakes.registry import FakeRegistry

AT = datetime(2026, 1, 1, tzinfo=UTC)
NOTHING = State({"messages": Part(0, "0" * 64)})
MEMORY = State({"messages": Part(7, "7" * 64)})
SIZES = {Plan.LIGHT: "starter", Plan.HEAVY: "basic"}


@dataclass
class Computer:
    """One machine.

    Attributes:
        answers: Whether its toolbox does.
        owner: The instance it was made into.
        fenced: Whether its gateway is stopped for good.
        runs: Whether its gateway runs.
    """

    id: MachineId
    server_type: str = "starter"
    status: MachineStatus = MachineStatus.READY
    answers: bool = True
    owner: InstanceId | None = None
    epoch: int = 0
    digest: str = ""
    fenced: bool = False
    runs: bool = False
    state: State = NOTHING
    names: MachineNames | None = None
    wanted_gb: int = 40
    release: str = "image"
    switching: bool = False


class SmallReleases(ReleaseTransfer):
    """What agents of such a world run.

    Args:
        kept: Releases that machines can be brought.
    """

    def __init__(self, world: "SmallWorld", kept: frozenset[str]) -> None:
        self.world = world
        self.kept = kept

    async def of(self, _instance_id: InstanceId, release: str) -> ReleaseId | None:
        noted = release or self.world.noted
        return ReleaseId(noted) if noted in self.kept else None

    async def deploy(self, machine_id: MachineId, release: ReleaseId) -> None:
        self.world.run_release(machine_id, release)


class SmallCells(CellStacks):
    """The stack of such a world's cell."""

    def __init__(self, world: "SmallWorld") -> None:
        self.world = world

    async def holds(self, cell: CellName, machine: MachineName) -> bool:
        return await self.world.holds(cell, machine)

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:
        await self.world.apply(cell, still_wanted=still_wanted)


@dataclass
class SmallWorld(FakeRegistry):
    """Everything of one user.

    Attributes:
        stack: Machines that the cell's state holds.
        store_goes: Whether the object store is gone once a gateway rests.
        noted: The release that the row says.
        certifies: Whether machines are given certificates.
        said: What was done, in words.
    """

    instance: Instance = ADA
    wanted: bool = True
    computers: dict[MachineName, Computer] = field(default_factory=dict)
    stack: set[MachineName] = field(default_factory=set)
    unassigned_machines: list[UnassignedMachine] = field(default_factory=list)
    kept_backups: list[Backup] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    cannot_resize: bool = False
    broken_backups: bool = False
    store_is_gone: bool = False
    store_goes: bool = False
    is_revoked: bool = False
    certifies: bool = False
    noted: str = ""
    snapshots: int = 0
    lease: Lease | None = None

    @classmethod
    def lively(cls) -> "SmallWorld":
        """Ada's agent, living, with memories."""
        world = cls(snapshots=2)
        world.computers[ADA.machine_name] = Computer(
            MachineId(str(ADA.machine_id)), owner=ADA.id, epoch=1, digest="payload-1-light", runs=True, state=MEMORY
        )
        world.stack.add(ADA.machine_name)
        return world

    @property
    def client(self) -> PowerControl:
        """Itself, as workflows are given it."""
        itself: Any = self
        client: PowerControl = itself
        return client

    @property
    def gateways(self) -> "SmallWorld":
        """Itself, as gateways' units."""
        return self

    def here(self) -> Computer:
        """The machine of the instance's row."""
        return self.computers[self.instance.machine_name]

    def _by_id(self, machine_id: MachineId) -> Computer:
        return next(computer for computer in self.computers.values() if computer.id == machine_id)

    def _start_gateway(self, computer: Computer) -> None:
        assert not computer.fenced, "a fenced gateway was started"
        assert computer.state == MEMORY, "a gateway was started on another state"
        others = [each for each in self.computers.values() if each.runs and each is not computer]
        assert not others, "two gateways on one state"
        computer.runs = True

    # Looks, Rests, HandsOver

    async def observe(self, _instance_id: InstanceId) -> Observation:
        observation = await self.observe_as(self.instance)
        node = observation.own_node
        if node and node.release and not node.switching:
            self.noted = node.release
        return observation

    async def observe_as(self, instance: Instance) -> Observation:
        computer = self.computers.get(instance.machine_name)
        if computer is None:
            return Observation(instance, None)
        machine = MachineState(computer.id, computer.status, computer.server_type)
        if computer.status is not MachineStatus.READY or not computer.answers:
            return Observation(instance, machine)
        request = "asked" if self.certifies else None
        node = NodeState(
            computer.owner,
            computer.epoch,
            computer.digest,
            computer.release,
            fenced=computer.fenced,
            switching=computer.switching,
            request=request,
            names=computer.names,
        )
        health = GatewayHealth.OK if computer.runs else GatewayHealth.REFUSED
        return Observation(instance, machine, node, health if computer.owner == instance.id else None)

    def payload_digest(self, instance: Instance) -> str:
        return f"payload-{instance.epoch}-{instance.plan}"

    async def start_machine(self, machine_id: MachineId) -> None:
        computer = self._by_id(machine_id)
        computer.status = MachineStatus.READY
        if computer.owner and not computer.fenced:
            self._start_gateway(computer)

    async def await_machine(self, _instance: Instance, machine_id: MachineId) -> None:
        self._by_id(machine_id).status = MachineStatus.READY

    async def stop_machine(self, _instance: Instance, machine_id: MachineId) -> None:
        computer = self._by_id(machine_id)
        computer.status, computer.runs = MachineStatus.STOPPED, False

    async def fence(self, *which: object) -> None:
        """As the world of lives has it, with instance and machine, and as gateways' units, with the machine alone."""
        computer = self._by_id(MachineId(str(which[-1])))
        computer.fenced, computer.runs = True, False

    async def is_stopped(self, machine: MachineState | None) -> bool | None:
        if machine is None or machine.status is not MachineStatus.READY or not self._by_id(machine.id).answers:
            return None
        return not self._by_id(machine.id).runs

    def terminations_terminate(self, _instance_id: InstanceId) -> None:
        assert not self.snapshots, "the vendor keeps the disk of an agent that has ended"
        self.instance = replace(self.instance, status=InstanceStatus.TERMINATED)

    async def want_room(self, machine_id: MachineId, gigabytes: int) -> None:
        self._by_id(machine_id).wanted_gb = gigabytes

    async def state(self, machine_id: MachineId) -> State | None:
        return self._by_id(machine_id).state

    async def release(self, machine_id: MachineId) -> None:
        computer = self._by_id(machine_id)
        computer.fenced = False
        self._start_gateway(computer)

    async def personalise(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        computer = self._by_id(machine_id)
        self._certify(computer, instance, request)
        computer.digest = self.payload_digest(instance)
        if not computer.runs:
            self._start_gateway(computer)

    def _certify(self, computer: Computer, instance: Instance, request: str | None) -> None:
        if request is not None:
            computer.names = MachineNames("local", computer.id, instance.cell, instance.id)

    async def prepare(self, instance: Instance, machine_id: MachineId, request: str | None) -> None:
        computer = self._by_id(machine_id)
        self._certify(computer, instance, request)
        computer.owner, computer.epoch, computer.fenced = instance.id, instance.epoch, True
        computer.digest = self.payload_digest(instance)

    async def await_gateway(self, _instance: Instance, machine_id: MachineId) -> None:
        assert self._by_id(machine_id).runs

    # Releases

    def run_release(self, machine_id: MachineId, release: ReleaseId) -> None:
        computer = self._by_id(machine_id)
        assert computer.state == NOTHING, "another release under a state that nobody has tried it on"
        computer.release, computer.switching = release, False

    # Backups

    async def reach(self) -> None:
        if self.store_is_gone:
            raise UnavailableError("the object store does not answer")

    def made(self, _instance_id: InstanceId, why: str) -> Backup | None:
        return next((backup for backup in self.kept_backups if backup.why == why), None)

    def newest(self, _instance_id: InstanceId) -> Backup | None:
        return self.kept_backups[-1] if self.kept_backups else None

    def get(self, _instance_id: InstanceId, snapshot: str) -> Backup:
        return next(backup for backup in self.kept_backups if backup.id == snapshot)

    async def make(self, instance: Instance, machine_id: MachineId, *, why: str) -> Backup:
        if kept := self.made(instance.id, why):
            return kept
        computer = self._by_id(machine_id)
        assert computer.fenced, "a copy of a state that is being written"
        if self.store_goes:
            raise UnavailableError("the object store does not answer")
        backup = Backup(f"snapshot{len(self.kept_backups)}", instance.id, AT, why, 1, 1, computer.state)
        self.kept_backups.append(backup)
        return backup

    async def restore(self, _instance: Instance, machine_id: MachineId, backup: Backup) -> State:
        computer = self._by_id(machine_id)
        assert computer.fenced, "a state put under a gateway"
        computer.state = backup.state
        return backup.state

    async def prove(self, _instance: Instance, backup: Backup) -> Backup:
        proved = replace(backup, checked_at=AT, checked="messages differ" if self.broken_backups else "")
        self.kept_backups = [proved if each.id == backup.id else each for each in self.kept_backups]
        return proved

    async def revoke(self, _instance_id: InstanceId) -> None:
        assert self.instance.status is not InstanceStatus.TERMINATED, "ended with a key that opens its repository"
        self.is_revoked = True

    async def drop(self, _instance_id: InstanceId, *, why: str) -> None:
        assert why
        self.snapshots = 0

    # Rows

    def instances_begin_grace(self, _instance_id: InstanceId, until: datetime, *, why: str) -> None:  # noqa: ARG002 - the port's
        self.instance = replace(self.instance, status=InstanceStatus.SUSPENDED, grace_until=until)

    def instances_is_machine_wanted(self, _instance_id: InstanceId) -> bool:
        return self.wanted

    def instances_leave_machine(self, _instance_id: InstanceId, *, why: str = "") -> None:  # noqa: ARG002 - the port's
        self.wanted = False

    def instances_mark_for_deletion(self, _instance_id: InstanceId, *, why: str = "") -> None:  # noqa: ARG002 - the port's
        self.wanted = False

    def instances_set_status(self, _instance_id: InstanceId, status: InstanceStatus) -> None:
        self.instance = replace(self.instance, status=status)

    def instances_change_plan(self, _instance_id: InstanceId, plan: Plan, server_type: str, *, why: str) -> None:  # noqa: ARG002 - the port's
        self.instance = replace(self.instance, plan=plan)

    def unassigned_list(
        self, *, role: MachineRole | None = None, instance_id: InstanceId | None = None
    ) -> list[UnassignedMachine]:
        return [each for each in self.unassigned_machines if each.role is role and each.instance_id == instance_id]

    def unassigned_find(self, name: MachineName) -> UnassignedMachine | None:
        return next((row for row in self.unassigned_machines if row.name == name), None)

    def unassigned_place(
        self,
        role: MachineRole,
        *,
        plan: Plan,
        server_type: str,
        image_id: ImageId | None,
        choose: Callable[[Sequence[Cell]], Placement],
        instance_id: InstanceId | None = None,
        why: str = "",  # noqa: ARG002 - the port's
    ) -> UnassignedMachine:
        name, place = MachineName("hermes-local-cell2-next"), choose(())
        row = UnassignedMachine(
            name,
            role,
            instance_id,
            place.cell,
            plan,
            server_type,
            place.region,
            image_id,
            None,
            wanted=True,
            status=UnassignedStatus.PREPARING,
            epoch=0,
            created_at=AT,
        )
        self.unassigned_machines.append(row)
        return row

    def unassigned_set_machine(self, name: MachineName, machine_id: MachineId, *, why: str) -> None:  # noqa: ARG002 - the port's
        self.unassigned_machines = [
            replace(s, machine_id=machine_id) if s.name == name else s for s in self.unassigned_machines
        ]

    def assignments_cut_over(
        self,
        instance_id: InstanceId,
        name: MachineName,
        *,
        lease: Lease | None,  # noqa: ARG002 - as the repository
        why: str,  # noqa: ARG002 - as the repository
    ) -> None:
        (row,) = (row for row in self.unassigned_machines if row.name == name)
        previous = replace(
            row,
            name=self.instance.machine_name,
            role=MachineRole.PREVIOUS,
            cell=self.instance.cell,
            machine_id=self.instance.machine_id,
            instance_id=instance_id,
            wanted=self.wanted,
        )
        self.instance = replace(
            self.instance,
            machine_name=row.name,
            machine_id=row.machine_id,
            cell=row.cell,
            plan=row.plan,
            epoch=self.instance.epoch + 1,
        )
        self.unassigned_machines, self.wanted = [previous], True

    def unassigned_retire(self, name: MachineName, *, why: str) -> None:  # noqa: ARG002 - the port's
        self.unassigned_machines = [
            replace(row, wanted=False) if row.name == name else row for row in self.unassigned_machines
        ]

    def unassigned_forget(self, name: MachineName, *, why: str) -> None:  # noqa: ARG002 - the port's
        self.unassigned_machines = [row for row in self.unassigned_machines if row.name != name or row.wanted]

    # Cells

    async def holds(self, _cell: CellName, machine: MachineName) -> bool:
        return machine in self.stack

    async def apply(self, cell: CellName, *, still_wanted: Callable[[], Awaitable[bool]]) -> None:  # noqa: ARG002 - the port's
        if not await still_wanted():
            return
        rows = {self.instance.machine_name: SIZES[self.instance.plan]} if self.wanted else {}
        rows |= {row.name: row.server_type for row in self.unassigned_machines if row.wanted}
        for name, size in rows.items():
            if name not in self.stack:
                self.computers.setdefault(name, Computer(MachineId(f"id-of-{name}"), size))
            elif name in self.computers and self.computers[name].server_type != size:
                self._resize(self.computers[name], size)
            self.stack.add(name)
        for name in self.stack - rows.keys():
            gone = self.computers.pop(name, Computer(MachineId("gone")))
            kept = [each.state for each in self.computers.values()] + [backup.state for backup in self.kept_backups]
            assert gone.state == NOTHING or gone.state in kept, "the only copy of a state was destroyed"
        self.stack = set(rows)

    def _resize(self, computer: Computer, size: str) -> None:
        if self.cannot_resize:
            raise RefusedError("this API cannot resize")
        computer.server_type = size
        computer.runs = computer.owner is not None and not computer.fenced
