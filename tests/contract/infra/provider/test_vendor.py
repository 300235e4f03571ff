"""The provider's actions in front of the local world's API, with the faults that it orders."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermesops.errors import RefusedError, UnavailableError
from hermesops.infra.provider.images import Images
from hermesops.infra.provider.machines import Machines
from hermesops.infra.provider.observation import ImageSpec, MachineSpec, ObservedMachine
from hermesops.infra.provider.vendor import JustAvps
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.programs.node.system.data_volume import wanted_gb
from hermesops.vendor.justavps import Client
from hermesops.wire.protocol import VARIABLES
from tests.support.worlds.local.local_server import LocalCloud, serving

NAME = "hermes-local-cell1-0123456789ab"
ORDER = MachineSpec(NAME, "starter", "hel1", "")


@dataclass
class World:
    cloud: LocalCloud
    machines: Machines
    images: Images

    async def create(self) -> ObservedMachine:
        return await self.machines.create(ORDER, timeout_s=30, report=_nobody)

    async def names(self) -> list[str]:
        answer = await self.cloud.http.get("/api/v1/machines")
        return [machine["name"] for machine in answer.json()["machines"]]


async def _nobody(line: str) -> None:
    del line


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    async with serving(tmp_path, SimDriver(tmp_path)) as cloud:
        key = (tmp_path / "api.key").read_text().strip()
        async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
            vendor = JustAvps(client)
            yield World(cloud, Machines(lambda: vendor), Images(lambda: vendor))


async def test_a_machine_comes_is_found_again_and_goes(world: World) -> None:
    machine = await world.create()
    assert (machine.status, machine.name, machine.region, machine.server_type) == ("ready", NAME, "hel1", "starter")
    assert machine.slug
    assert "{port}" in machine.port_template
    assert await world.create() == machine
    assert await world.machines.read(machine.id, NAME) == machine
    await world.machines.delete(machine.id, NAME)
    assert await world.machines.read(machine.id, NAME) is None
    assert await world.names() == []
    await world.machines.delete(machine.id, NAME)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "create-5xx-but-created"},
        {"kind": "not-found-for-a-while"},
        {"kind": "error-then-ready"},
        {"kind": "lost-answer", "method": "POST", "path": "/machines"},
        {"kind": "server-error", "method": "GET", "path": "/machines/", "times": 2, "status": 502},
    ],
    ids=lambda fault: str(fault["kind"]),
)
async def test_whatever_the_vendor_does_there_is_one_machine(world: World, fault: dict[str, object]) -> None:
    await world.cloud.fault(**fault)  # type: ignore[arg-type]
    machine = await world.create()
    assert machine.status == "ready"
    assert await world.names() == [NAME]
    assert (await world.cloud.http.get("/local/faults")).json() == {"faults": []}, "it did not happen"


async def test_a_lost_answer_to_a_deletion_is_settled_by_looking(world: World) -> None:
    machine = await world.create()
    await world.cloud.fault("lost-answer", method="DELETE", path="/machines")
    await world.machines.delete(machine.id, NAME)
    assert await world.names() == []


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("payment-required", "402, No payment method"), ("unprocessable", "422, .*image disk is bigger")],
)
async def test_a_refusal_leaves_nothing(world: World, kind: str, reason: str) -> None:
    await world.cloud.fault(kind)
    with pytest.raises(RefusedError, match=reason):
        await world.create()
    assert await world.names() == []


async def test_a_machine_is_resized_and_stays_the_same_machine(world: World) -> None:
    machine = await world.create()
    grown = await world.machines.update(machine.id, NAME, {"server_type": "pro"}, timeout_s=30, report=_nobody)
    assert (grown.id, grown.status, grown.server_type) == (machine.id, "ready", "pro")
    assert await world.machines.update(machine.id, NAME, {"server_type": "pro"}, timeout_s=30, report=_nobody) == grown
    with pytest.raises(RefusedError, match="unknown server type 'no-such-size'"):
        await world.machines.update(machine.id, NAME, {"server_type": "no-such-size"}, timeout_s=5, report=_nobody)
    assert await world.machines.read(machine.id, NAME) == grown


async def test_a_machine_not_found_for_a_moment_is_no_api_that_cannot_resize(world: World) -> None:
    machine = await world.create()
    await world.cloud.fault("not-found-for-a-while", method="POST")
    with pytest.raises(UnavailableError, match="exists, and was not resized"):
        await world.machines.update(machine.id, NAME, {"server_type": "pro"}, timeout_s=30, report=_nobody)
    assert (
        await world.machines.update(machine.id, NAME, {"server_type": "pro"}, timeout_s=30, report=_nobody)
    ).server_type == "pro"


async def test_an_image_comes_is_found_again_and_goes(world: World) -> None:
    machine = await world.create()
    order = ImageSpec("hermes-base-1", machine.id)
    image = await world.images.create(order, timeout_s=30, report=_nobody)
    assert (image.status, image.bootable, image.machine_id) == ("ready", True, machine.id)
    assert await world.images.create(order, timeout_s=30, report=_nobody) == image
    assert await world.images.read(image.id) == image
    await world.machines.delete(machine.id, NAME)
    assert await world.images.read(image.id) == image
    await world.images.delete(image.id, "hermes-base-1")
    assert await world.images.read(image.id) is None
    await world.images.delete(image.id, "hermes-base-1")


async def test_the_size_of_the_data_volume_is_told_with_the_order(world: World) -> None:
    machine = await world.machines.create(replace(ORDER, data_gb="40"), timeout_s=30, report=_nobody)
    answer = await world.cloud.http.get(
        f"/api/v1/machines/{machine.id}/toolbox/files/download", params={"path": VARIABLES}
    )
    assert wanted_gb(answer.content) == 40
