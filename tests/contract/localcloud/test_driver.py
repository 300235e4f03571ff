"""What every driver promises the API server, held against each of them: simulated machines, and booted ones."""

import asyncio
import contextlib
import os
import shutil
import tempfile
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import Driver, MachinePower, MachineSize
from hermesops.localcloud.drivers.sim.driver import SimDriver
from hermesops.model.ids import ImageId, MachineId
from hermesops.vendor.channel.detached_scripts import script_command
from hermesops.vendor.channel.toolbox import BINARY
from tests.support.crash.death import run_until_killed
from tests.support.real.machines.machine import TestMachine, new_driver, plan, started
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.left_worlds import remember_folder, remember_world

KINDS = ["sim", pytest.param("nspawn", marks=(pytest.mark.machines, pytest.mark.turns(2)))]


def driver_of(kind: str, state: Path) -> Driver:
    """A driver of the world in that folder, not open yet."""
    return SimDriver(state) if kind == "sim" else new_driver(state)


@contextlib.asynccontextmanager
async def world_folder(kind: str) -> AsyncIterator[Path]:
    """A folder for a world; whatever happens to it, nothing stays behind."""
    require(kind == "sim" or os.geteuid() == 0, "root")
    folder = Path(tempfile.mkdtemp(prefix="hermesops-world-"))
    remember_world(folder / "world")
    remember_folder(folder)
    try:
        yield folder / "world"
    finally:
        if (folder / "world").exists():
            await driver_of(kind, folder / "world").close(purge=True)
        shutil.rmtree(folder)


@contextlib.asynccontextmanager
async def opened(kind: str, state: Path) -> AsyncIterator[Driver]:
    """That world, open; its machines stay."""
    driver = driver_of(kind, state)
    try:
        await driver.open()
        yield driver
    finally:
        await driver.close(purge=False)


@pytest.fixture(scope="module", params=KINDS)
async def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
async def driver(kind: str) -> AsyncIterator[Driver]:
    async with world_folder(kind) as state, opened(kind, state) as driver:
        yield driver


@pytest.fixture(scope="module")
async def machine(driver: Driver) -> AsyncIterator[TestMachine]:
    async with started(driver, plan(1, hostname="quiet-fox", files={"/etc/justavps/env": b"WORD='a b'\n"})) as machine:
        yield machine


async def becomes(driver: Driver, machine_id: MachineId, wanted: MachinePower) -> None:
    async def observe() -> bool | Pending[bool]:
        power = await driver.power(machine_id)
        return True if power is wanted else Pending(power)

    await until(observe, what=f"power {wanted}", timeout_s=20, every_s=0.05)


async def test_a_machine_is_who_the_plan_says(machine: TestMachine) -> None:
    assert (await machine.execute("hostname")).stdout == "quiet-fox\n"
    assert await machine.download("/etc/justavps/env") == b"WORD='a b'\n"
    info = await machine.http.get("/toolbox/files/info", params={"path": "/etc/justavps/env"})
    assert (info.json()["mode_bits"], info.json()["owner"]) == ("600", "root")


async def test_a_command_ends_with_its_exit_code_and_an_unknown_one_with_127(machine: TestMachine) -> None:
    done = await machine.execute("echo one; false")
    assert (done.exit_code, done.stdout) == (1, "one\n")
    assert (await machine.execute("true && echo two || echo three")).stdout == "two\n"
    assert (await machine.execute("no-such-program")).exit_code == 127
    late = await machine.http.post("/toolbox/process/execute", json={"command": "sleep 9", "timeout": 0.2})
    assert (late.status_code, late.json()["code"]) == (408, "timeout")
    nobody = await machine.http.post("/toolbox/process/execute", json={"command": "true", "user": "nobody-here"})
    assert (nobody.status_code, nobody.json()["code"]) == (404, "user_not_found")


async def test_a_command_brings_the_bytes_of_both_streams_back(machine: TestMachine) -> None:
    script = script_command(BINARY, "/run/streams", "echo one; false", "1024")
    assert (await machine.execute(script)).stdout.split("\n")[:3] == ["1", "inline", "b25lCg=="]


async def test_the_toolbox_answers_in_the_vendors_shapes(machine: TestMachine) -> None:
    """Source: the checks of the vendor's own SDK, ``kortix-justavps`` 2026.3.6, ``e2e_test.py``."""
    await machine.http.post("/toolbox/files/folder", params={"path": "/srv/shapes"})
    await machine.upload("/srv/shapes/file", b"hello\nhello\n", mode="600")
    for path, kind in (("/srv/shapes", "dir"), ("/srv/shapes/file", "file"), ("/srv/shapes/none", None)):
        there = (await machine.http.get("/toolbox/files/exists", params={"path": path})).json()
        assert (there["exists"], there["type"]) == (kind is not None, kind)
    listed = (await machine.http.get("/toolbox/files", params={"path": "/srv"})).json()["entries"]
    assert [entry["type"] for entry in listed if entry["name"] == "shapes"] == ["dir"]
    info = (await machine.http.get("/toolbox/files/info", params={"path": "/srv/shapes/file"})).json()
    assert (info["type"], info["mode"], info["mode_bits"]) == ("file", "-rw-------", "600")
    query = {"path": "/srv/shapes", "pattern": "hello", "max_results": "1"}
    files = (await machine.http.get("/toolbox/files/find", params=query)).json()
    assert (len(files["matches"]), files["total"], files["truncated"]) == (1, 1, True)
    processes = (await machine.http.get("/toolbox/process/list")).json()["processes"]
    assert sum("justavps-daemon" in process["command"] for process in processes) == 1
    assert {"pid", "command", "args", "user"} <= set(processes[0])
    await machine.http.request("DELETE", "/toolbox/files", params={"path": "/srv/shapes", "recursive": "true"})


async def test_files_go_up_and_come_down(machine: TestMachine) -> None:
    await machine.upload("/srv/deep/er/x", b"\0content", mode="640")
    assert await machine.download("/srv/deep/er/x") == b"\0content"
    for path, there in (("/srv/deep/er/x", True), ("/srv/deep", True), ("/srv/deep/other", False)):
        answer = await machine.http.get("/toolbox/files/exists", params={"path": path})
        assert answer.json()["exists"] is there
    twice = await machine.http.post(
        "/toolbox/files/upload", params={"path": "/srv/deep/er/x", "overwrite": "false"}, content=b"y"
    )
    assert twice.status_code == 409
    full = await machine.http.delete("/toolbox/files", params={"path": "/srv/deep"})
    assert (full.status_code, full.json()["code"]) == (400, "not_empty")
    assert (await machine.http.delete("/toolbox/files", params={"path": "/srv/deep", "recursive": "true"})).is_success
    gone = await machine.http.get("/toolbox/files/download", params={"path": "/srv/deep/er/x"})
    assert (gone.status_code, gone.json()["code"]) == (404, "not_found")


async def test_another_bearer_is_refused(machine: TestMachine) -> None:
    answer = await machine.http.get("/healthz", headers={"Authorization": "Bearer of-somebody-else"})
    assert answer.status_code == 401


async def test_a_port_on_which_nothing_listens_is_said_to_be_so(driver: Driver, machine: TestMachine) -> None:
    address, port = driver.daemon_address(machine.id)
    reader, writer = await asyncio.open_connection(str(address), port)
    bearer = f"Proxy-Authorization: Bearer {machine.token}"
    writer.write(f"CONNECT 127.0.0.1:8642 HTTP/1.1\r\nHost: 127.0.0.1:8642\r\n{bearer}\r\n\r\n".encode())
    assert b" 502 " in await reader.readline()
    writer.close()
    await writer.wait_closed()


async def test_a_hard_reboot_is_a_new_boot_with_the_old_disk(driver: Driver, machine: TestMachine) -> None:
    before = await machine.healthz()
    await machine.upload("/root/kept", b"kept")
    await machine.upload("/run/lost", b"lost")
    await driver.reboot(machine.id)
    await machine.boots_anew(before["boot_id"])
    assert await machine.download("/root/kept") == b"kept"
    assert not (await machine.http.get("/toolbox/files/exists", params={"path": "/run/lost"})).json()["exists"]
    assert float(str((await machine.healthz())["uptime_s"])) < 60


async def test_a_reboot_from_inside_needs_nobody(machine: TestMachine) -> None:
    before = await machine.healthz()
    with contextlib.suppress(httpx.HTTPError):  # the answer may go down with the machine
        await machine.execute("systemctl reboot")
    await machine.boots_anew(before["boot_id"])


async def test_a_machine_stops_and_starts_again(driver: Driver, machine: TestMachine) -> None:
    await driver.stop(machine.id)
    assert await driver.power(machine.id) is MachinePower.STOPPED
    assert machine.id not in await driver.powered()
    with pytest.raises(httpx.TransportError):
        await machine.healthz()
    with pytest.raises(httpx.TransportError):  # nor anybody who connects anew, where many machines share an address
        await machine.healthz()
    await driver.stop(machine.id)
    await driver.start(machine.id)
    await machine.wait_until_booted()
    assert machine.id in await driver.powered()
    before = await machine.healthz()
    await driver.start(machine.id)
    assert (await machine.healthz())["boot_id"] == before["boot_id"]


async def test_a_machine_that_switches_itself_off_is_stopped_and_can_start(
    driver: Driver, machine: TestMachine
) -> None:
    with contextlib.suppress(httpx.HTTPError):
        await machine.execute("systemctl poweroff")
    await becomes(driver, machine.id, MachinePower.STOPPED)
    await driver.start(machine.id)
    await machine.wait_until_booted()


async def test_the_same_order_again_changes_nothing(driver: Driver, machine: TestMachine) -> None:
    before = await machine.healthz()
    await driver.create(plan(1, id=machine.id, daemon_token=machine.token))
    assert (await machine.healthz())["boot_id"] == before["boot_id"]
    assert (await machine.execute("hostname")).stdout == "quiet-fox\n"


@pytest.mark.usefixtures("machine")
async def test_a_number_is_given_once(driver: Driver) -> None:
    order = plan(1)
    with pytest.raises(RefusedError, match="has number 1 already"):
        await driver.create(order)
    assert await driver.power(order.id) is MachinePower.ABSENT


async def test_an_image_that_is_not_here_is_refused(driver: Driver) -> None:
    order = plan(13, image_id=ImageId("no-such-image"))
    with pytest.raises(RefusedError, match="no image no-such-image"):
        await driver.create(order)
    assert await driver.power(order.id) is MachinePower.ABSENT


async def test_what_boots_from_an_image_is_a_machine_of_its_own(driver: Driver, machine: TestMachine) -> None:
    await machine.upload("/srv/made", b"in the image")
    image = ImageId(str(uuid4()))
    saved = await driver.save_image(machine.id, image)
    assert saved >= len(b"in the image")
    assert await driver.save_image(machine.id, image) == saved
    await machine.upload("/srv/made", b"later")
    async with started(driver, plan(11, image_id=image, hostname="second")) as copy:
        assert await copy.download("/srv/made") == b"in the image"
        assert (await copy.execute("hostname")).stdout == "second\n"
        ids = [(await each.execute("cat /etc/machine-id")).stdout for each in (machine, copy)]
        assert ids[0] != ids[1]
        with pytest.raises(RefusedError, match="is used by machine"):
            await driver.delete_image(image)
    await driver.delete_image(image)
    await driver.delete_image(image)


async def test_a_machine_grows_with_everything_on_it(driver: Driver, machine: TestMachine) -> None:
    await machine.upload("/root/before", b"before")
    before = await machine.healthz()
    await driver.resize(machine.id, MachineSize(vcpu=2, memory_mib=2048, disk_gib=11))
    await machine.boots_anew(before["boot_id"])
    assert await machine.download("/root/before") == b"before"


async def test_a_machine_goes_back_to_an_image_of_its_own(driver: Driver, machine: TestMachine) -> None:
    await machine.upload("/root/state", b"then")
    image = ImageId(str(uuid4()))
    await driver.save_image(machine.id, image)
    await machine.upload("/root/state", b"now")
    before = await machine.healthz()
    await driver.restore(machine.id, image)
    await machine.boots_anew(before["boot_id"])
    assert await machine.download("/root/state") == b"then"
    await driver.delete_image(image)
    with pytest.raises(RefusedError, match=f"image {image} "):
        await driver.restore(machine.id, image)


async def test_nothing_is_left_of_a_deleted_machine_and_its_number_is_free(driver: Driver) -> None:
    order = plan(14)
    free = (await driver.capacity()).machines
    async with started(driver, order):
        assert (await driver.capacity()).machines < free
    assert await driver.power(order.id) is MachinePower.ABSENT
    await driver.delete(order.id)
    async with started(driver, replace(plan(14), id=MachineId(str(uuid4())))) as heir:
        assert not (await heir.http.get("/toolbox/files/exists", params={"path": "/root/kept"})).json()["exists"]


DIE = """
import asyncio
from pathlib import Path
from tests.contract.localcloud.test_driver import driver_of
from tests.support.crash.death import kill_this_process
from tests.support.real.machines.machine import plan, started

async def main():
    driver = driver_of({kind!r}, Path({state!r}))
    await driver.open()
    order = plan(1, id={machine!r}, daemon_token={token!r})
    async with started(driver, order) as machine:
        await machine.upload("/root/acknowledged", b"kept")
        print((await machine.healthz())["boot_id"], flush=True)
        kill_this_process()

asyncio.run(main())
"""


def run_and_die(kind: str, state: Path, machine_id: MachineId, token: str) -> str:
    """Have a server make that machine, write a file on it and be killed; the boot id it saw."""
    return run_until_killed(DIE.format(kind=kind, state=str(state), machine=machine_id, token=token)).strip()


async def test_machines_outlive_a_killed_server_with_all_that_was_acknowledged(kind: str) -> None:
    machine_id, token = MachineId(str(uuid4())), "bearer-of-the-first-server"
    async with world_folder(kind) as state:
        boot_id = run_and_die(kind, state, machine_id, token)
        async with opened(kind, state) as driver:
            assert machine_id in await driver.powered()
            await becomes(driver, machine_id, MachinePower.RUNNING)
            address, port = driver.daemon_address(machine_id)
            headers = {"Authorization": f"Bearer {token}"}
            async with httpx.AsyncClient(base_url=f"http://{address}:{port}", headers=headers, trust_env=False) as http:
                survivor = TestMachine(driver, machine_id, token, http)
                assert (await survivor.wait_until_booted())["boot_id"] == boot_id
                assert await survivor.download("/root/acknowledged") == b"kept"


async def test_a_world_has_one_owner_and_is_purged_whole(kind: str) -> None:
    async with world_folder(kind) as state:
        async with opened(kind, state):
            with pytest.raises(RefusedError, match="another"):
                await driver_of(kind, state).open()
        await driver_of(kind, state).close(purge=True)
        assert list(state.iterdir()) == []
