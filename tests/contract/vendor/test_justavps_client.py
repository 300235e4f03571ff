"""Our client against our own JustAVPS, with the faults the real one is known for. Machines are simulated."""

from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.vendor.channel import MachineUnreachableError, ToolboxChannel
from hermesops.vendor.justavps import (
    Client,
    ImageStatus,
    Machine,
    MachineOrder,
    MachineStatus,
    Port,
    ProxyClient,
    errors,
    ordering,
    wait_ready,
)
from tests.support.worlds.local.local_server import LocalCloud, serving


@pytest.fixture(scope="module")
async def cloud(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalCloud]:
    folder = tmp_path_factory.mktemp("world")
    async with serving(folder, SimDriver(folder)) as running:
        yield running


@pytest.fixture(scope="module")
async def client(cloud: LocalCloud) -> AsyncIterator[Client]:
    key = (cloud.folder / "api.key").read_text().strip()
    async with Client(f"{cloud.where.api_url}/api/v1", key) as client:
        yield client


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordering, "_ATTEMPT_EVERY_S", 0.05)


def _order() -> MachineOrder:
    return MachineOrder(name=f"edge-{uuid4().hex[:8]}", server_type="starter", region="hel1")


@pytest.fixture
async def machine(client: Client) -> AsyncIterator[Machine]:
    machine = await client.create_machine(_order())
    yield await wait_ready(client.get_machine, machine.id, timeout_s=60)
    await client.delete_machine(machine.id)


async def _named(client: Client, order: MachineOrder) -> list[str]:
    return [machine.id for machine in await client.list_machines() if machine.name == order.name]


async def test_a_machine_lives_and_dies(client: Client) -> None:
    order = _order()
    machine = await client.create_machine(order)
    ready = await wait_ready(client.get_machine, machine.id, timeout_s=60)
    assert (ready.name, ready.server_type, ready.region) == (order.name, "starter", "hel1")
    assert (await client.find_machine(order.name)) is not None
    await client.delete_machine(machine.id)
    assert await client.find_machine(order.name) is None
    await client.delete_machine(machine.id)


async def test_the_same_order_twice_is_one_machine(client: Client) -> None:
    order = _order()
    first, second = await client.create_machine(order), await client.create_machine(order)
    assert first.id == second.id
    await client.delete_machine(first.id)


@pytest.mark.parametrize(
    "fault",
    [
        {"kind": "create-5xx-but-created"},
        {"kind": "lost-answer", "method": "POST", "path": "/machines"},
    ],
)
async def test_a_machine_whose_order_got_no_answer_is_found(
    client: Client, cloud: LocalCloud, fault: dict[str, str]
) -> None:
    order = _order()
    await cloud.fault(**fault)
    machine = await client.create_machine(order)
    assert await _named(client, order) == [machine.id]
    await client.delete_machine(machine.id)


async def test_an_order_that_was_not_carried_out_is_said_and_not_repeated(client: Client, cloud: LocalCloud) -> None:
    order = _order()
    await cloud.fault("server-error", method="POST", path="/machines", status=500)
    with pytest.raises(errors.OrderUnknownError, match="no machine of that name has appeared"):
        await client.create_machine(order)
    assert await _named(client, order) == []


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("payment-required", errors.PaymentRequiredError, "No payment method on file"),
        ("unprocessable", errors.UnprocessableError, "image disk is bigger"),
    ],
)
async def test_a_refused_order_is_a_type(
    client: Client, cloud: LocalCloud, kind: str, error: type[errors.AnswerError], message: str
) -> None:
    order = _order()
    await cloud.fault(kind)
    with pytest.raises(error, match=message):
        await client.create_machine(order)
    assert await _named(client, order) == []


@pytest.mark.parametrize("kind", ["not-found-for-a-while", "error-then-ready"])
async def test_the_wait_for_ready_sees_past_a_bad_start(client: Client, cloud: LocalCloud, kind: str) -> None:
    order = _order()
    await cloud.fault(kind, machine=order.name)
    machine = await client.create_machine(order)
    assert (await wait_ready(client.get_machine, machine.id, timeout_s=60)).status is MachineStatus.READY
    await client.delete_machine(machine.id)


async def test_a_stopped_machine_starts_again(client: Client, machine: Machine) -> None:
    async def becomes(status: MachineStatus) -> None:
        async def observe() -> bool | Pending[bool]:
            machine_status = (await client.get_machine(machine.id)).status
            return True if machine_status is status else Pending(machine_status.value)

        await until(observe, what=status.value, timeout_s=60, every_s=0.05)

    await client.stop_machine(machine.id)
    await becomes(MachineStatus.STOPPED)
    with pytest.raises((MachineUnreachableError, errors.JustAvpsError), match="the machine does not answer"):
        await ToolboxChannel(client, machine.id).run("true")
    await client.start_machine(machine.id)
    await becomes(MachineStatus.READY)


async def test_an_image_is_saved_listed_and_deleted(client: Client, machine: Machine) -> None:
    saved = await client.save_image(machine.id, name="base")

    async def observe() -> bool | Pending[bool]:
        image = await client.get_image(saved.id)
        return True if image.bootable else Pending(image.status.value)

    await until(observe, what="the image", timeout_s=60, every_s=0.05)
    assert [(image.name, image.status) for image in await client.list_images()] == [("base", ImageStatus.READY)]
    await client.delete_image(saved.id)
    await client.delete_image(saved.id)
    assert await client.list_images() == []


async def test_a_files_fate_is_told(client: Client, machine: Machine, tmp_path: Path) -> None:
    path = f"{tmp_path}/deep/file"
    await client.toolbox.upload(machine.id, path, b"content", mode=0o640)
    assert await client.toolbox.download(machine.id, path) == b"content"
    with pytest.raises(errors.NotAllowedError, match="is not empty"):
        await client.toolbox.delete(machine.id, f"{tmp_path}/deep")
    await client.toolbox.delete(machine.id, f"{tmp_path}/deep", recursive=True)
    with pytest.raises(errors.NotFoundError, match="file"):
        await client.toolbox.download(machine.id, path)


async def test_the_proxy_opens_for_a_token_until_it_is_revoked(
    client: Client, cloud: LocalCloud, machine: Machine
) -> None:
    token = await client.issue_proxy_token(machine.id, label="test", lifetime_s=600)
    async with ProxyClient(f"{cloud.where.api_url}/api/v1") as proxy:
        nobody_listens = Port.of(machine, 9, token.token)
        assert (await proxy.request(nobody_listens, "GET", "/")).status == 502
        await client.revoke_proxy_token(token.id)
        assert (await proxy.request(nobody_listens, "GET", "/")).status in {401, 403}


async def test_sizes_and_account_are_read(client: Client) -> None:
    types = await client.list_server_types(region="hel1")
    assert {"starter", "basic"} <= {server_type.name for server_type in types}
    assert (await client.get_account()).id


async def test_a_wrong_key_is_a_type(cloud: LocalCloud) -> None:
    async with Client(f"{cloud.where.api_url}/api/v1", "sk_live_wrong") as stranger:
        with pytest.raises(errors.UnauthorisedError, match="GET /machines: 401"):
            await stranger.list_machines()


async def test_where_nobody_listens_nothing_was_sent() -> None:
    async with Client("http://127.0.0.1:9/api/v1", "k") as lost:
        with pytest.raises(errors.UnreachableError, match="stop: not reachable"):
            await lost.stop_machine("m1")


async def test_no_root_key_of_the_vendor_passes_the_client(client: Client, cloud: LocalCloud, machine: Machine) -> None:
    raw = (await cloud.http.get(f"/api/v1/machines/{machine.id}")).json()
    key = raw["ssh_key"]["private_key"].splitlines()[2]
    listed = await client.list_machines()
    assert key not in repr(listed) + "".join(listed_machine.model_dump_json() for listed_machine in listed)


async def test_who_asks_too_often_comes_back_when_told(client: Client, cloud: LocalCloud) -> None:
    await cloud.fault("rate-limited", path="/account", seconds=1, times=3)
    with pytest.raises(errors.RateLimitedError, match="GET /account: 429") as refused:
        await client.get_account()
    assert refused.value.retry_after_s == 1
    await cloud.fault("rate-limited", path="/account", seconds=1)
    assert (await client.get_account()).id


async def test_an_edges_page_is_no_answer_of_the_vendor(client: Client, cloud: LocalCloud) -> None:
    await cloud.fault("edge-error-but-done", method="POST", path="/machines")
    order = _order()
    machine = await client.create_machine(order)
    assert await _named(client, order) == [machine.id]
    await client.delete_machine(machine.id)


async def test_an_order_that_the_list_does_not_show_yet_is_not_repeated(client: Client, cloud: LocalCloud) -> None:
    order = _order()
    await cloud.fault("create-5xx-but-created", machine=order.name)
    await cloud.fault("stale-list", times=3)
    machine = await client.create_machine(order)
    assert await _named(client, order) == [machine.id]
    await client.delete_machine(machine.id)


async def test_a_resize_is_seen_on_the_machine_and_not_in_its_status(
    client: Client, cloud: LocalCloud, machine: Machine
) -> None:
    await cloud.fault("older-shape", machine=machine.name)
    assert (await client.get_machine(machine.id)).id == machine.id
    await client.resize_machine(machine.id, server_type="basic")

    async def grown() -> bool | Pending[bool]:
        return (await client.get_machine(machine.id)).server_type == "basic" or Pending("not yet")

    assert await until(grown, what="the new size", timeout_s=20, every_s=0.05)
