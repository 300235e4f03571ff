"""Have the vendor make an image of one instance's machine while its gateway is stopped.

The instant of an image is unknown, so nothing may be written until JustAVPS has saved all of it. The fence is part of
the image: on a machine made from it no gateway starts before that machine is personalised.
"""

from dataclasses import dataclass
from typing import assert_never

from hermesops.agents.instances import refusals
from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.remote.power_control import PowerControl
from hermesops.agents.instances.requests.snapshots import Snapshots
from hermesops.agents.instances.steps import OnMachine
from hermesops.agents.instances.steps.machine_table import own_machine
from hermesops.agents.instances.steps.personalise import AwaitGateway
from hermesops.agents.instances.steps.start_verified import Release
from hermesops.agents.instances.steps.stop_and_backup import Fence
from hermesops.errors import Hint, RefusedError
from hermesops.model.fleet.health import GatewayHealth
from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.operation import Done, Refused
from hermesops.vendor.justavps.wire import Image, ImageStatus


class Save(OnMachine):
    """Have JustAVPS begin to save the machine's disk."""


@dataclass(frozen=True)
class AwaitImage:
    """Wait until it has it all, or gave up."""

    image_id: str


Step = Fence | Save | AwaitImage | Release | AwaitGateway


@dataclass(frozen=True)
class SnapshotState:
    """The instance and its image of this operation.

    Attributes:
        image: What this very operation has begun to save; ``None`` before that.
    """

    observation: Observation
    image: Image | None


def decide(state: SnapshotState) -> Step | Done | Refused:
    """The next step towards a private image of the machine."""
    instance, image = state.observation.instance, state.image
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(refusals.terminated(instance))
    if instance.status is InstanceStatus.PROVISIONING:
        return Refused(refusals.never_started(instance))
    if instance.status is InstanceStatus.SUSPENDED:
        return Refused(refusals.suspended(instance))
    own = own_machine(state.observation)
    if isinstance(own, Refused):
        return own
    machine, node = own
    if image is None:
        return Save(machine.id) if node.fenced else Fence(machine.id)
    if not image.bootable and image.status in {ImageStatus.CREATING, ImageStatus.READY, ImageStatus.UNKNOWN}:
        # If an operator started the gateway meanwhile, the image is still one of some instant.
        return AwaitImage(image.id)
    return _start(state.observation, machine, image, fenced=node.fenced)


def _start(observation: Observation, machine: MachineState, image: Image, *, fenced: bool) -> Step | Done | Refused:
    if fenced:
        return Release(machine.id)
    if observation.gateway is not GatewayHealth.OK:
        return AwaitGateway(machine.id)
    if not image.bootable:
        return Refused(_failed(observation.instance, image))
    return Done(f"snapshot {image.id[:8]} of {observation.instance.title}")


def _failed(instance: Instance, image: Image) -> RefusedError:
    title = instance.title
    return RefusedError(
        f"JustAVPS could not save the disk of {title}: {image.description or image.status}",
        hint=Hint("its agent runs;", ("snapshot", "delete", title, image.id), ", then", ("snapshot", "create", title)),
    )


@dataclass
class Snapshot:
    """The work of taking one snapshot, for the operations' loop.

    Attributes:
        name: Of the image; no other has it.
    """

    instance_id: InstanceId
    name: str
    client: PowerControl
    snapshots: Snapshots

    async def observe(self) -> SnapshotState:
        """Look at machine, node and gateway, and for the image."""
        return SnapshotState(await self.client.observe(self.instance_id), await self.snapshots.named(self.name))

    def decide(self, state: SnapshotState) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(state)

    def describe(self, step: Step, state: SnapshotState) -> str:
        """The step in a few words."""
        instance = state.observation.instance
        match step:
            case Fence():
                return f"stopping the gateway of {instance.title}"
            case Save() | AwaitImage():
                return f"saving the disk of {instance.title}"
            case Release():
                return f"starting the gateway of {instance.title}"
            case AwaitGateway():
                return "waiting for the gateway"

    async def do(self, step: Step, state: SnapshotState) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case Fence(machine_id=machine_id):
                await self.client.fence(state.observation.instance, machine_id)
            case Save(machine_id=machine_id):
                await self.snapshots.save(machine_id, self.name)
            case AwaitImage(image_id=image_id):
                await self.snapshots.await_end(image_id)
            case Release(machine_id=machine_id):
                await self.client.release(machine_id)
            case AwaitGateway(machine_id=machine_id):
                # A process killed between unfencing and starting left it stopped; a gateway that runs is not touched.
                await self.client.release(machine_id)
                await self.client.await_gateway(state.observation.instance, machine_id)
            case _ as never:
                assert_never(never)
