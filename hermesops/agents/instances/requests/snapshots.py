"""Snapshots: JustAVPS's images of single instances."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.base import waiting
from hermesops.errors import UnavailableError, UnknownOutcomeError
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.image import owner_of
from hermesops.model.operation import Operation
from hermesops.model.unknown_name import find_by_id
from hermesops.store.operations.kinds.copies import SnapshotIntent
from hermesops.store.operations.leases.keeper import LeaseKeeper
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.wire import Image, ImageStatus

_SAVED_S = 3600.0
"""Saving was seen to take tens of minutes at the vendor."""


@dataclass(frozen=True)
class Snapshots:
    """Takes, lists and deletes snapshots of instances."""

    environment: str
    registry: Registry
    client: Client
    opener: OperationOpener
    hold_lease: Callable[[str], LeaseKeeper]
    report: Callable[[str], None]

    async def of(self, instance_id: InstanceId) -> list[Image]:
        """Snapshots of one instance, newest first."""
        return self._of(instance_id, await self.client.list_images())

    def _of(self, instance_id: InstanceId, images: Sequence[Image]) -> list[Image]:
        snapshots = [image for image in images if owner_of(image.name, self.environment) == instance_id]
        return sorted(snapshots, key=lambda image: (image.created_at is not None, image.created_at), reverse=True)

    async def of_all(self) -> list[tuple[Instance, Image]]:
        """Snapshots of all instances in the registry, by user, the newest of each first."""
        images = await self.client.list_images()
        instances = sorted(self.registry.instances.list(), key=lambda instance: instance.title)
        return [(instance, image) for instance in instances for image in self._of(instance.id, images)]

    async def open(self, instance: Instance, *, reason: str) -> Operation:
        """Open the operation that takes a snapshot.

        Raises:
            RefusedError: Another operation of the instance has not ended.
        """
        return await self.opener.open_eligible(instance, SnapshotIntent(user=instance.title, reason=reason))

    async def delete(self, instance: Instance, image: Image, *, reason: str) -> None:
        """Delete one, with a line in the audit.

        Raises:
            LeaseHeldError: Somebody is working on the instance.
        """
        async with self.hold_lease(instance_subject(instance.id)):
            await self._delete(instance.id, image, why=reason)

    async def drop(self, instance_id: InstanceId, *, why: str) -> None:
        """Delete all of an instance's, with lines in the audit; the caller holds its lease."""
        for image in await self.of(instance_id):
            await self._delete(instance_id, image, why=why)

    async def _delete(self, instance_id: InstanceId, image: Image, *, why: str) -> None:
        await self.client.delete_image(image.id)
        subject = instance_subject(instance_id)
        self.registry.audit.append("snapshot_deleted", subject, why=why, before={"image": image.id})

    async def named(self, name: str) -> Image | None:
        """The image with that name, if there is one."""
        return next((image for image in await self.client.list_images() if image.name == name), None)

    async def save(self, machine_id: MachineId, name: str) -> None:
        """Begin to save a machine's disk.

        Raises:
            UnknownOutcomeError: The order's answer was lost, and no image of that name is listed.
        """
        try:
            await self.client.save_image(machine_id, name=name)
        except UnknownOutcomeError:
            if await self.named(name) is None:
                raise

    async def await_end(self, image_id: str) -> None:
        """Return once it is saved, or has failed."""

        async def observe() -> bool | waiting.Pending[bool]:
            try:
                image = await self.client.get_image(image_id)
            except UnavailableError as error:
                return waiting.Pending(str(error))
            has_ended = image.bootable or image.status in {ImageStatus.FAILED, ImageStatus.DELETED}
            return True if has_ended else waiting.Pending(str(image.status))

        what = f"image {image_id}"
        await waiting.until(observe, what=what, timeout_s=_SAVED_S, every_s=0.5, report=self.report)


def chosen(snapshots: list[Image], text: str, user: str) -> Image:
    """The one whose id begins so.

    Raises:
        UsageError: None does, or several do.
    """
    by_id = {snapshot.id: snapshot for snapshot in snapshots}
    return by_id[find_by_id("snapshot", text, by_id, of=user)]
