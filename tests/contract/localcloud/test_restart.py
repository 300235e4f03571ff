"""A server that dies at any moment: the next one finds what was begun and brings it to its end, once."""

import asyncio
import sqlite3
from pathlib import Path

import pytest

from hermesops.errors import BrokenInvariantError, RefusedError, UnavailableError
from hermesops.localcloud.server.listener import listen
from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud, serving


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "world"


async def only_machine(cloud: LocalCloud) -> dict[str, object]:
    (machine,) = (await cloud.http.get("/api/v1/machines")).json()["machines"]
    return dict(machine)


async def test_machines_and_tokens_survive_on_the_same_port(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        machine = await before.ready()
        token = await before.token(machine)
    async with serving(folder, driver) as after:
        assert after.where.api_url == before.where.api_url
        assert (await only_machine(after))["ssh_key"] == machine["ssh_key"]
        answer = await after.http.post(f"/api/v1/machines/{machine['id']}/exec", json={"command": "echo still"})
        assert answer.json()["stdout"] == "still\n"
        async with after.through(machine, None, token["token"]) as http:
            assert (await http.get("/toolbox/process/list")).status_code == 200
    assert driver.machines[str(machine["id"])].boots == 1


async def test_a_machine_half_made_is_made_once(folder: Path, driver: PretendDriver) -> None:
    driver.create_gate = asyncio.Event()
    async with serving(folder, driver) as before:
        ordered = await before.order()
        await driver.until_called("create 1")
    driver.create_gate = None
    async with serving(folder, driver) as after:
        await after.becomes(ordered["id"], "ready")
        assert (await only_machine(after))["id"] == ordered["id"]
    assert (len(driver.machines), driver.calls.count("create 1")) == (1, 2)


async def test_an_order_nobody_began_is_carried_out(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        machine = await before.ready()
    await driver.delete(machine["id"])
    with sqlite3.connect(folder / "world.db") as database:
        database.execute("UPDATE machines SET made = 0, status = 'provisioning'")
    async with serving(folder, driver) as after:
        await after.becomes(machine["id"], "ready")


async def test_a_deletion_begun_is_finished(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        machine = await before.ready()
    with sqlite3.connect(folder / "world.db") as database:
        database.execute("UPDATE machines SET wanted = 'deleted'")
    async with serving(folder, driver) as after:
        assert (await after.http.get(f"/api/v1/machines/{machine['id']}")).status_code == 404
        await driver.until_called("delete")
    assert driver.machines == {}


async def test_an_image_half_taken_is_taken_again(folder: Path, driver: PretendDriver) -> None:
    driver.image_gate = asyncio.Event()
    async with serving(folder, driver) as before:
        machine = await before.ready()
        image = (await before.http.post(f"/api/v1/machines/{machine['id']}/image", json={"name": "x"})).json()
        await driver.until_called("save_image")
    driver.image_gate = None
    async with serving(folder, driver) as after:
        assert (await after.image_ends(image["id"]))["status"] == "ready"


async def test_a_computer_that_was_off_boots_its_machines_again(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        on, off = await before.ready("on"), await before.ready("off")
        await before.http.post(f"/api/v1/machines/{off['id']}/stop")
        await before.becomes(off["id"], "stopped")
    await driver.stop(on["id"])
    async with serving(folder, driver) as after:
        await driver.until_called("start")
        await after.becomes(on["id"], "ready")
        await after.becomes(off["id"], "stopped")
    assert driver.machines[str(off["id"])].boots == 1


async def test_a_machine_that_powered_itself_off_stays_off_until_its_owner_starts_it(
    folder: Path, driver: PretendDriver
) -> None:
    async with serving(folder, driver) as before:
        machine = await before.ready()
        await driver.power_itself_off(str(machine["id"]))
        await before.becomes(machine["id"], "stopped")
    async with serving(folder, driver) as after:
        assert (await only_machine(after))["status"] == "stopped"
        assert "start" not in driver.calls
        await after.http.post(f"/api/v1/machines/{machine['id']}/start")
        await after.becomes(machine["id"], "ready")


async def test_a_lost_disk_is_told_and_never_replaced_by_an_empty_one(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        machine = await before.ready()
    await driver.delete(machine["id"])
    async with serving(folder, driver) as after:
        await after.becomes(machine["id"], "error")
        (machine_state,) = (await after.http.get("/local/status")).json()["machines"]
    assert "disk" in machine_state["message"]
    assert driver.machines == {}


async def test_a_driver_that_fails_once_is_asked_again(folder: Path, driver: PretendDriver) -> None:
    driver.fails = "no loop device is free"
    async with serving(folder, driver) as cloud:
        machine = await cloud.order()
        await cloud.becomes(machine["id"], "error")
        (machine_state,) = (await cloud.http.get("/local/status")).json()["machines"]
        assert machine_state["message"] == "no loop device is free"
        await cloud.becomes(machine["id"], "ready")


async def test_two_servers_never_have_one_world(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver):
        with pytest.raises(RefusedError, match="another server"):
            async with serving(folder, driver):
                pass


async def test_a_port_that_somebody_took_meanwhile_is_named(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver) as before:
        port = before.port
    with listen("127.0.0.1", port), pytest.raises(UnavailableError, match=str(port)):
        async with serving(folder, driver):
            pass


@pytest.fixture
def damaged(folder: Path) -> Path:
    folder.mkdir()
    (folder / "world.db").write_bytes(b"rubbish" * 1000)
    return folder


async def test_a_damaged_file_is_named(damaged: Path, driver: PretendDriver) -> None:
    with pytest.raises(BrokenInvariantError, match=r"world\.db"):
        async with serving(damaged, driver):
            pass


async def test_a_server_that_ended_leaves_no_address_behind(folder: Path, driver: PretendDriver) -> None:
    async with serving(folder, driver):
        assert (folder / "world.json").exists()
    assert not (folder / "world.json").exists()
