"""A machine's disk put back to an earlier instant, and made larger with what is on it."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.drivers.interface import MachinePower, MachineSize
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.model.ids import ImageId
from hermesops.programs.node.system.files import is_mounted
from hermesops.wire.protocol import DATA_PATH
from tests.support.real.machines.machine import TestMachine, opened_driver, plan, started
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.machines


@pytest.fixture(scope="module", autouse=True)
def _as_root() -> None:
    require(os.geteuid() == 0, "root")


@pytest.fixture(scope="module")
async def driver() -> AsyncIterator[NspawnDriver]:
    async with opened_driver() as driver:
        yield driver


@contextmanager
def copied_mounts() -> Iterator[None]:
    """Somebody holds a copy of all mounts of this computer and hears of no unmounts, for the length of a ``with``."""
    words = ["unshare", "--mount", "--propagation", "private", "sh", "-c", "echo copied; exec cat"]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout
        assert holder.stdout.readline() == b"copied\n"
        yield  # it ends with its standard input


@pytest.fixture
def folder() -> Iterator[Path]:
    # Not pytest's own folder: another run tidies that up, and this one holds mounts.
    path = Path(tempfile.mkdtemp(prefix="hermesops-disk-"))
    (path / "layer").mkdir()
    yield path
    Disk(path).unmount()
    shutil.rmtree(path)


async def up_again(machine: TestMachine) -> None:
    async def observe() -> bool | Pending[bool]:
        try:
            return bool((await machine.healthz())["booted"]) or Pending("booting")
        except httpx.HTTPError as error:
            return Pending(str(error))

    await until(observe, what="the machine", timeout_s=20, every_s=0.05)


async def test_a_restore_brings_the_disk_back_and_keeps_the_machine(driver: NspawnDriver) -> None:
    backup, foreign = ImageId("bkp-1"), ImageId(str(uuid4()))
    async with started(driver, plan(21, hostname="restored", disk_gib=2)) as machine:
        await machine.execute(
            "echo early > /srv/mark; rm /etc/logrotate.conf; head -c 5M /dev/urandom > /srv/data; sync"
        )
        before = (await machine.execute("sha256sum /srv/data; cat /etc/machine-id")).stdout
        await driver.save_image(machine.id, backup)
        await machine.execute(
            "echo late > /srv/mark; touch /srv/new /etc/logrotate.conf; truncate -s 0 /srv/data; sync"
        )
        await driver.restore(machine.id, backup)
        await up_again(machine)
        shown = await machine.execute("cat /srv/mark; hostname; ls /srv/new /etc/logrotate.conf 2>/dev/null")
        assert shown.stdout == "early\nrestored\n"
        assert (await machine.execute("sha256sum /srv/data; cat /etc/machine-id")).stdout == before
        used = (await machine.execute("df -BM --output=used / | tail -1")).stdout
        assert int(used.strip().rstrip("M")) >= 5  # on the machine's own disk, not in a layer below it

        await driver.stop(machine.id)
        await driver.restore(machine.id, backup)
        assert await driver.power(machine.id) is MachinePower.STOPPED
        await driver.start(machine.id)
        await up_again(machine)
        assert (await machine.execute("cat /srv/mark")).stdout == "early\n"

        async with started(driver, plan(22, image_id=backup)) as other:
            await driver.save_image(other.id, foreign)
            with pytest.raises(RefusedError, match="is not of machine"):
                await driver.restore(machine.id, foreign)
        await driver.delete_image(foreign)
    await driver.delete_image(backup)


async def test_a_restore_for_which_there_is_no_room_leaves_the_disk_as_it_was(
    driver: NspawnDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    backup = ImageId("bkp-2")
    async with started(driver, plan(23, disk_gib=1)) as machine:
        await machine.execute("echo early > /srv/mark; sync")
        await driver.save_image(machine.id, backup)
        await machine.execute("echo late > /srv/mark; sync")

        def full(*_: object, **__: object) -> str:
            raise UnavailableError("cp failed with 1: No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("hermesops.localcloud.drivers.nspawn.disks.disk.Disk.fill", full)
            with pytest.raises(UnavailableError, match="No space"):
                await driver.restore(machine.id, backup)
        await driver.start(machine.id)
        await up_again(machine)
        assert (await machine.execute("cat /srv/mark")).stdout == "late\n"
    await driver.delete_image(backup)


async def test_a_bigger_size_grows_the_disk_with_what_is_on_it_and_never_shrinks_it(driver: NspawnDriver) -> None:
    async def gibs(machine: TestMachine) -> float:
        shown = await machine.execute("df -BM --output=size / | tail -1")
        return int(shown.stdout.strip().rstrip("M")) / 1024

    async with started(driver, plan(24, disk_gib=1)) as machine:
        await machine.execute("head -c 5M /dev/urandom > /srv/data; sync")
        before = (await machine.execute("sha256sum /srv/data")).stdout
        assert await gibs(machine) < 1.1
        await driver.resize(machine.id, MachineSize(vcpu=1, memory_mib=512, disk_gib=3))
        await up_again(machine)
        assert 2.7 < await gibs(machine) < 3.1
        assert (await machine.execute("sha256sum /srv/data")).stdout == before
        held = driver.open_world
        group = held.machine(held.record(machine.id)).group
        limit = group._find("memory.limit_in_bytes") or group._find("memory.max")
        assert limit is None or int(limit.read_text()) == 512 * 2**20

        await driver.stop(machine.id)
        await driver.resize(machine.id, MachineSize(vcpu=2, memory_mib=1024, disk_gib=2))
        assert await driver.power(machine.id) is MachinePower.STOPPED
        await driver.start(machine.id)
        await up_again(machine)
        assert 2.7 < await gibs(machine) < 3.1


def test_a_disk_grows_though_somebody_elses_copy_of_the_mounts_holds_it(folder: Path) -> None:
    disk = Disk(folder)
    disk.make(1)
    disk.mount([folder / "layer"], cwd=folder)
    (disk.root / "mark").write_text("kept")
    with copied_mounts():
        disk.unmount()
        disk.grow(3)
        disk.mount([folder / "layer"], cwd=folder)
        assert shutil.disk_usage(disk.root).total > 2.7 * 2**30
        (disk.root / "later").write_text("kept too")
    disk.unmount()
    subprocess.run(["e2fsck", "-fn", folder / "disk.img"], check=True, capture_output=True)
    disk.mount([folder / "layer"], cwd=folder)
    assert [(disk.root / name).read_text() for name in ("mark", "later")] == ["kept", "kept too"]


def test_a_disk_with_a_volume_is_stopped_grown_and_removed_though_somebody_elses_copy_holds_the_volume(
    folder: Path,
) -> None:
    disk = Disk(folder)
    disk.make(1)
    disk.mount([folder / "layer"], cwd=folder)
    with disk.volume.file.open("wb") as file:
        file.truncate(64 * 2**20)
    subprocess.run(["mkfs.ext4", "-q", disk.volume.file], check=True)
    disk.volume.open()
    mark = disk.root / DATA_PATH.lstrip("/") / "mark"
    mark.write_text("kept")
    with copied_mounts():
        mark.write_text("kept, and not yet on the disk")
        disk.unmount()
        assert not is_mounted(folder / "disk")
        disk.grow(2)
        disk.mount([folder / "layer"], cwd=folder)
        disk.volume.open()
        assert mark.read_text() == "kept, and not yet on the disk"
        mark.write_text("kept again")
        disk.unmount()
    disk.mount([folder / "layer"], cwd=folder)
    subprocess.run(["e2fsck", "-fn", disk.volume.file], check=True, capture_output=True)
    disk.volume.open()
    assert mark.read_text() == "kept again"
