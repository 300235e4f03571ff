"""Composes snapshots: JustAVPS's images of single instances."""

from typing import TYPE_CHECKING

from hermesops import waiting
from hermesops.errors import UnavailableError, UnknownOutcomeError
from hermesops.justavps.wire import Image, ImageStatus
from hermesops.model.ids import InstanceId, MachineId, instance_subject
from hermesops.model.operation import Lease, Operation
from hermesops.model.snapshot import owner_of, snapshot_name
from hermesops.model.unknown_name import find_by_id
from hermesops.operations.kinds import SnapshotIntent

if TYPE_CHECKING:
    from hermesops.app.container_parts.connected import Connected
    from hermesops.instances.workflows.snapshot import Snapshot
    from hermesops.model.instance import Instance

_SAVED_S = 3600.0
"""Saving was seen to take tens of minutes at the vendor."""


class Snapshots:
    """Snapshots of one session's instances.

    Args:
        session: What they are made of.
    """

    def __init__(self, session: "Connected") -> None:
        self._session = session
        self._app = session.app
        self._vendor = session.client

    async def of(self, instance_id: InstanceId) -> list[Image]:
        """An instance's, newest first."""
        environment = self._app.env.name
        found = [one for one in await self._vendor.list_images() if owner_of(one.name, environment) == instance_id]
        return sorted(found, key=lambda one: (one.created_at is not None, one.created_at), reverse=True)

    async def open(self, instance: "Instance", *, reason: str) -> Operation:
        """Open the operation that takes a snapshot.

        Raises:
            RefusedError: Another operation of the instance has not ended.
        """
        return await self._session.opener.open_eligible(instance, SnapshotIntent(user=instance.title, reason=reason))

    def work_of(self, operation: Operation, lease: Lease) -> "Snapshot":
        """What takes one, from its row."""
        from hermesops.app.handlers.instances import instance_of
        from hermesops.instances.workflows.snapshot import Snapshot

        instance_id = instance_of(operation)
        name = snapshot_name(self._app.env.name, instance_id, operation.id)
        return Snapshot(instance_id, name, self._session.instance_client.with_lease(lease), self)

    async def delete(self, instance: "Instance", image: Image, *, reason: str) -> None:
        """Delete one, and write down who did.

        Raises:
            LeaseHeldError: Somebody is working on the instance.
        """
        async with self._app.hold_lease(instance_subject(instance.id)):
            await self._delete(instance.id, image, why=reason)

    async def drop(self, instance_id: InstanceId, *, why: str) -> None:
        """Delete all of an instance's, and write it down; the caller holds its lease."""
        for image in await self.of(instance_id):
            await self._delete(instance_id, image, why=why)

    async def _delete(self, instance_id: InstanceId, image: Image, *, why: str) -> None:
        await self._vendor.delete_image(image.id)
        subject = instance_subject(instance_id)
        self._app.registry.audit.append("snapshot_deleted", subject, why=why, before={"image": image.id})

    # Images, as taking one sees them

    async def named(self, name: str) -> Image | None:
        """The image of a name."""
        return next((image for image in await self._vendor.list_images() if image.name == name), None)

    async def save(self, machine_id: MachineId, name: str) -> None:
        """Begin to save a machine's disk.

        Raises:
            UnknownOutcomeError: The order's answer was lost, and no image of that name is listed.
        """
        try:
            await self._vendor.save_image(machine_id, name=name)
        except UnknownOutcomeError:
            if await self.named(name) is None:
                raise

    async def await_end(self, image_id: str) -> None:
        """Return once it is saved, or given up."""

        async def look() -> bool | waiting.Pending[bool]:
            try:
                seen = await self._vendor.get_image(image_id)
            except UnavailableError as error:
                return waiting.Pending(str(error))
            has_ended = seen.bootable or seen.status in {ImageStatus.FAILED, ImageStatus.DELETED}
            return True if has_ended else waiting.Pending(str(seen.status))

        what = f"image {image_id}"
        await waiting.until(look, what=what, timeout_s=_SAVED_S, every_s=0.5, tell=self._app.tell)


def chosen(snapshots: list[Image], text: str, user: str) -> Image:
    """The one whose id begins so.

    Raises:
        UsageError: None does, or several do.
    """
    by_id = {one.id: one for one in snapshots}
    return by_id[find_by_id("snapshot", text, by_id, of=user)]
