"""Snapshots are found by their names, deleted under the instance's lease, and saved once though an answer is lost."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.requests.snapshots import Snapshots, chosen
from hermesops.errors import UnknownOutcomeError, UsageError
from hermesops.model.ids import MachineId, OperationId, instance_subject
from hermesops.model.image import snapshot_name
from hermesops.vendor.justavps.wire import Image, ImageStatus
from tests.support.fakes.instances import ADA
from tests.support.fakes.parts import Leases, part
from tests.support.fleets.in_memory import ordered

BEN = replace(ordered(2).instance, user_alias="ben")


def image(number: int, name: str = "") -> Image:
    name = name or snapshot_name("local", ADA.id, OperationId(f"{number:08}-0000-0000-0000-000000000000"))
    timestamp = datetime(2026, 1, number, tzinfo=UTC)
    return Image(id=f"i{number}", name=name, status=ImageStatus.READY, provider_image_id="p", created_at=timestamp)


class Vendor:
    """Images, of which orders may lose their answer."""

    def __init__(self, *images: Image, keeps: bool = True) -> None:
        self.images = list(images)
        self._keeps = keeps

    async def list_images(self) -> list[Image]:
        return self.images

    async def delete_image(self, image_id: str) -> None:
        self.images = [image for image in self.images if image.id != image_id]

    async def save_image(self, _machine_id: str, *, name: str) -> None:
        if self._keeps:
            self.images.append(image(9, name))
        raise UnknownOutcomeError("the answer was lost")


def snapshots(vendor: Vendor, leases: Leases, noted: list[str]) -> Snapshots:
    def note(action: str, subject: str, **_: Any) -> None:  # noqa: ANN401 - as the registry's
        noted.append(f"{action} {subject}")

    client: Any = vendor
    registry = part(audit=part(append=note), instances=part(list=lambda: [BEN, ADA]))
    return Snapshots("local", registry, client, part(), leases.hold, lambda _: None)


async def test_an_instances_snapshots_are_told_the_newest_first() -> None:
    vendor = Vendor(image(1), image(3), image(2), image(4, "hermes-base-0123456789ab"))
    assert [image.id for image in await snapshots(vendor, Leases(), []).of(ADA.id)] == ["i3", "i2", "i1"]


async def test_all_snapshots_are_listed_by_user_and_images_of_others_are_left_out() -> None:
    of_ben = image(4, snapshot_name("local", BEN.id, OperationId("00000004-0000-0000-0000-000000000000")))
    vendor = Vendor(of_ben, image(1), image(3), image(5, "hermes-base-0123456789ab"))
    listed = await snapshots(vendor, Leases(), []).of_all()
    assert [(owner.title, image.id) for owner, image in listed] == [("ada", "i3"), ("ada", "i1"), ("ben", "i4")]


async def test_a_snapshot_is_deleted_under_the_lease_and_in_the_audit() -> None:
    vendor, leases, noted = Vendor(image(1), image(2)), Leases(), list[str]()
    await snapshots(vendor, leases, noted).delete(ADA, image(1), reason="old")
    assert [image.id for image in vendor.images] == ["i2"]
    assert leases.held == [instance_subject(ADA.id)]
    assert noted == [f"snapshot_deleted {instance_subject(ADA.id)}"]


async def test_an_order_whose_answer_was_lost_counts_if_the_image_is_there() -> None:
    vendor = Vendor()
    await snapshots(vendor, Leases(), []).save(MachineId("m"), "wanted")
    assert [image.name for image in vendor.images] == ["wanted"]
    with pytest.raises(UnknownOutcomeError, match="lost"):
        await snapshots(Vendor(keeps=False), Leases(), []).save(MachineId("m"), "wanted")


def test_a_snapshot_is_chosen_by_the_beginning_of_its_id() -> None:
    assert chosen([image(1), image(2)], "i2", "ada").id == "i2"
    with pytest.raises(UsageError, match="i9"):
        chosen([image(1)], "i9", "ada")
