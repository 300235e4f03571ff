"""A snapshot: the vendor's image of one instance's machine, taken while its gateway rests.

An image is of one instant at best, and nobody knows which, so nothing may be written until JustAVPS has it all. The
fence is in it too: on a machine that is made of it no gateway starts before the machine is handed to somebody anew.
"""

from dataclasses import dataclass
from typing import Protocol, assert_never

from hermesops.errors import RefusedError
from hermesops.instances.observation import MachineState, Observation
from hermesops.instances.ports import AwaitsGateways
from hermesops.instances.steps.personalise import AwaitGateway, asleep, never_lived, not_its_own, silence, terminated
from hermesops.instances.steps.start_verified import Release
from hermesops.instances.steps.stop_and_backup import Fence
from hermesops.justavps.wire import Image, ImageStatus, MachineStatus
from hermesops.model.health import GatewayHealth
from hermesops.model.ids import InstanceId, MachineId
from hermesops.model.instance import Instance, InstanceStatus
from hermesops.model.operation import Done, Refused


@dataclass(frozen=True)
class Save:
    """Have JustAVPS begin to save the machine's disk."""

    machine_id: MachineId


@dataclass(frozen=True)
class AwaitImage:
    """Wait until it has it all, or gave up."""

    image_id: str


Step = Fence | Save | AwaitImage | Release | AwaitGateway


@dataclass(frozen=True)
class Taking:
    """What taking a snapshot looks at.

    Attributes:
        image: What this very operation has begun to save; ``None`` before that.
    """

    observation: Observation
    image: Image | None


def decide(seen: Taking) -> Step | Done | Refused:
    """The next step."""
    instance, machine, node, image = (
        seen.observation.instance,
        seen.observation.machine,
        seen.observation.node,
        seen.image,
    )
    if instance.status is InstanceStatus.TERMINATED:
        return Refused(terminated(instance))
    if instance.status is InstanceStatus.PROVISIONING:
        return Refused(never_lived(instance))
    if instance.status is InstanceStatus.SUSPENDED:
        return Refused(asleep(instance))
    if machine is None or machine.status is not MachineStatus.READY or node is None:
        return Refused(silence(instance))
    if node.instance_id != instance.id:
        return Refused(not_its_own(instance, node.instance_id or "nobody"))
    if image is None:
        return Save(machine.id) if node.fenced else Fence(machine.id)
    if not image.bootable and image.status in {ImageStatus.CREATING, ImageStatus.READY, ImageStatus.UNKNOWN}:
        # Whose gateway was let go by hand meanwhile has an image all the same, as of one instant.
        return AwaitImage(image.id)
    return _wake(seen.observation, machine, image, fenced=node.fenced)


def _wake(observation: Observation, machine: MachineState, image: Image, *, fenced: bool) -> Step | Done | Refused:
    if fenced:
        return Release(machine.id)
    if observation.gateway is not GatewayHealth.OK:
        return AwaitGateway(machine.id)
    if not image.bootable:
        return Refused(_failed(observation.instance, image))
    return Done(f"snapshot {image.id[:8]} of {observation.instance.title}")


def describe(step: Step, instance: Instance) -> str:
    """The step in a few words."""
    match step:
        case Fence():
            return f"stopping the gateway of {instance.title}"
        case Save() | AwaitImage():
            return f"saving the disk of {instance.title}"
        case Release():
            return f"starting the gateway of {instance.title}"
        case AwaitGateway():
            return "waiting for the gateway"
        case _ as never:
            assert_never(never)


def _failed(instance: Instance, image: Image) -> RefusedError:
    title = instance.title
    return RefusedError(
        f"JustAVPS could not save the disk of {title}: {image.description or image.status}",
        hint=f"its agent lives; hermesops snapshot delete {title} {image.id}, then hermesops snapshot create {title}",
    )


class World(AwaitsGateways, Protocol):
    """Machine, node and gateway."""

    async def fence(self, instance: Instance, machine_id: MachineId) -> None:
        """Let turns under way end, then stop the gateway for good."""

    async def release(self, machine_id: MachineId) -> None:
        """Take the fence away and start the gateway."""


class Images(Protocol):
    """Images at JustAVPS."""

    async def named(self, name: str) -> Image | None:
        """The image of a name."""

    async def save(self, machine_id: MachineId, name: str) -> None:
        """Begin to save a machine's disk."""

    async def await_end(self, image_id: str) -> None:
        """Return once it is saved, or given up."""


class Snapshot:
    """The work of taking one snapshot, for the operations' loop.

    Args:
        instance_id: Whose.
        name: Of the image; no other has it.
        world: Machine, node and gateway.
        images: Images at JustAVPS.
    """

    def __init__(self, instance_id: InstanceId, name: str, world: World, images: Images) -> None:
        self._instance_id = instance_id
        self._name = name
        self._world = world
        self._images = images

    async def observe(self) -> Taking:
        """Look at machine, node and gateway, and for the image."""
        return Taking(await self._world.observe(self._instance_id), await self._images.named(self._name))

    def decide(self, seen: Taking) -> Step | Done | Refused:
        """The next step for what was seen."""
        return decide(seen)

    def describe(self, step: Step, seen: Taking) -> str:
        """The step in a few words."""
        return describe(step, seen.observation.instance)

    async def do(self, step: Step, seen: Taking) -> None:
        """Do one step; harmless when it was done before."""
        match step:
            case Fence(machine_id=machine_id):
                await self._world.fence(seen.observation.instance, machine_id)
            case Save(machine_id=machine_id):
                await self._images.save(machine_id, self._name)
            case AwaitImage(image_id=image_id):
                await self._images.await_end(image_id)
            case Release(machine_id=machine_id):
                await self._world.release(machine_id)
            case AwaitGateway(machine_id=machine_id):
                # Killed between taking the fence away and starting it, somebody left it stopped; one that runs goes on.
                await self._world.release(machine_id)
                await self._world.await_gateway(seen.observation.instance, machine_id)
            case _ as never:
                assert_never(never)
