"""A machine's data volume: of the size that its order names, enforced, kept over reboots, carried by images."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.interface import MachineSize
from hermesops.localcloud.drivers.nspawn.disks.disk import Disk
from hermesops.model.ids import ImageId
from hermesops.programs.node.system.data_volume import with_gb
from hermesops.wire.protocol import GB
from tests.support.real.machines.machine import TestMachine, opened_driver, plan, started
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.machines

AGENT = 990
ENV = "/etc/justavps/env"


@pytest.fixture(scope="module", autouse=True)
def _as_root() -> None:
    require(os.geteuid() == 0, "root")


@pytest.fixture
def disk() -> Iterator[Disk]:
    """A disk that is mounted over a layer with an agent's home in it."""
    # Not pytest's own folder: another run tidies that up, and this one holds mounts.
    folder = Path(tempfile.mkdtemp(prefix="hermesops-volume-"))
    home = folder / "layer/var/lib/hermes"
    (home / "skills").mkdir(parents=True)
    (home / "skills/SKILL.md").write_text("as the image has it")
    for path in (home, home / "skills", home / "skills/SKILL.md"):
        os.chown(path, AGENT, AGENT)
    home.chmod(0o700)
    disk = Disk(folder)
    disk.make(3)
    disk.mount([folder / "layer"], cwd=folder)
    yield disk
    disk.unmount()
    shutil.rmtree(folder)


def order(disk: Disk, gigabytes: int) -> None:
    """Have the machine's order name a size."""
    path = disk.root / ENV.lstrip("/")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(with_gb(b"OTHER='x'\n", gigabytes))


def home_of(disk: Disk) -> Path:
    return disk.root / "var/lib/hermes"


def test_a_fresh_volume_holds_what_the_image_has_there_and_nothing_else(disk: Disk) -> None:
    order(disk, 1)
    disk.volume.open()
    home = home_of(disk)
    assert home.is_mount()
    assert os.listdir(home) == ["skills"]  # noqa: PTH208 - no lost+found, which the agent could not read
    assert (home / "skills/SKILL.md").read_text() == "as the image has it"
    assert {(path.stat().st_uid, path.stat().st_gid) for path in (home, home / "skills/SKILL.md")} == {(AGENT, AGENT)}
    assert home.stat().st_mode & 0o777 == 0o700
    assert 0.8 * GB < shutil.disk_usage(home).total <= GB


def test_a_volume_keeps_what_is_on_it_and_grows_where_the_order_wants_more_and_never_shrinks(disk: Disk) -> None:
    order(disk, 1)
    disk.volume.open()
    (home_of(disk) / "memory").write_text("kept")
    disk.volume.close()
    assert not (home_of(disk) / "memory").exists()
    order(disk, 2)
    disk.volume.file.open("r+b").truncate(2 * GB)  # as a run leaves it that is killed while it grows
    disk.volume.open()
    assert 1.75 * GB < shutil.disk_usage(home_of(disk)).total <= 2 * GB
    assert (home_of(disk) / "memory").read_text() == "kept"
    assert sorted(os.listdir(home_of(disk))) == ["memory", "skills"]  # noqa: PTH208 - names alone
    disk.volume.close()
    order(disk, 1)
    disk.volume.open()
    assert shutil.disk_usage(home_of(disk)).total > 1.75 * GB
    assert (home_of(disk) / "memory").read_text() == "kept"


def test_a_machine_whose_order_names_no_size_has_a_plain_folder(disk: Disk) -> None:
    disk.volume.open()
    assert not home_of(disk).is_mount()
    assert not disk.volume.file.exists()


def test_a_volume_is_mounted_through_no_link_of_the_machine(disk: Disk, tmp_path: Path) -> None:
    order(disk, 1)
    shutil.rmtree(home_of(disk))
    home_of(disk).symlink_to(tmp_path)
    with pytest.raises(RefusedError, match="link"):
        disk.volume.open()
    assert not tmp_path.is_mount()


async def boot_id(machine: TestMachine) -> str:
    return (await machine.execute("cat /proc/sys/kernel/random/boot_id")).stdout


async def test_a_full_volume_hurts_its_user_alone_and_its_data_outlive_reboots_resizes_and_images() -> None:
    async with opened_driver() as driver:
        small = plan(31, hostname="data", disk_gib=3, files={ENV: with_gb(b"", 1)})
        async with started(driver, small) as machine:
            filled = await machine.execute(
                "cd /var/lib/hermes && echo mine >kept && head -c 2G /dev/zero >big; df -B1 ."
            )
            assert "No space left" in filled.stderr
            beside = await machine.execute("head -c 50M /dev/zero >/srv/room && sync && rm /srv/room && echo well")
            assert beside.stdout == "well\n"
            assert (await machine.execute("cd /var/lib/hermes && rm big && cat kept")).stdout == "mine\n"

            before = (await machine.healthz())["boot_id"]
            await driver.reboot(machine.id)
            await machine.boots_anew(before)
            await machine.upload(ENV, with_gb(b"", 2))
            before = (await machine.healthz())["boot_id"]
            await driver.resize(machine.id, MachineSize(vcpu=2, memory_mib=1024, disk_gib=4))
            await machine.boots_anew(before)
            shown = (await machine.execute("cd /var/lib/hermes && cat kept && df -B1 --output=size . | tail -1")).stdout
            assert shown.split()[0] == "mine"
            assert 1.8 * GB < int(shown.split()[1]) <= 2 * GB

            await machine.execute("echo later >>/var/lib/hermes/kept")  # not synced: the image has it all the same
            saved = ImageId("image-with-data")
            await driver.save_image(machine.id, saved)
            await machine.execute("echo too late >>/var/lib/hermes/kept")
            before = (await machine.healthz())["boot_id"]
            await driver.restore(machine.id, saved)
            await machine.boots_anew(before)
            assert (await machine.execute("cat /var/lib/hermes/kept")).stdout == "mine\nlater\n"
        async with started(driver, plan(32, image_id=saved, disk_gib=4)) as other:
            assert (await other.execute("cat /var/lib/hermes/kept")).stdout == "mine\nlater\n"
        await driver.delete_image(saved)
        layers = driver.open_world.store.layers
        assert not [entry.name for entry in layers.iterdir() if entry.name.startswith(saved)]
