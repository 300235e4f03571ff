"""The nspawn driver on this computer: what it promises beyond the contract of every driver (``test_driver``)."""

import asyncio
import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from uuid import uuid4

import httpx
import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import BrokenInvariantError, RefusedError
from hermesops.localcloud.drivers.interface import MachinePower
from hermesops.localcloud.drivers.nspawn.computer import resources
from hermesops.localcloud.drivers.nspawn.computer.cgroup import MachineGroup
from hermesops.localcloud.drivers.nspawn.driver import NspawnDriver
from hermesops.localcloud.drivers.nspawn.world_lock import tag_of
from hermesops.model.ids import ImageId, MachineId
from tests.support.crash.death import run_until_killed
from tests.support.real.machines.machine import TestMachine, new_driver, opened_driver, plan, started
from tests.support.suite.prerequisites import require
from tests.support.worlds.local.left_worlds import remember_folder, remember_world
from tests.support.worlds.local.traces import traces

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]


@pytest.fixture(scope="module", autouse=True)
def _as_root() -> None:
    require(os.geteuid() == 0, "root")


@pytest.fixture(scope="module")
async def driver() -> AsyncIterator[NspawnDriver]:
    async with opened_driver() as driver:
        yield driver


def group_of(driver: NspawnDriver, machine_id: MachineId) -> MachineGroup:
    world = driver.open_world
    return world.machine(world.record(machine_id)).group


@pytest.fixture
async def state() -> AsyncIterator[Path]:
    """A folder for a world; whatever happens to it, nothing stays mounted below it."""
    folder = Path(tempfile.mkdtemp(prefix="hermesops-world-"))
    state = folder / "world"
    remember_world(state)
    remember_folder(folder)
    yield state
    if state.exists():
        await new_driver(state).close(purge=True)
    shutil.rmtree(folder)


@pytest.fixture(scope="module")
async def machine(driver: NspawnDriver) -> AsyncIterator[TestMachine]:
    async with started(driver, plan(1)) as machine:
        yield machine


def leader(driver: NspawnDriver, machine: TestMachine) -> int:
    pid = group_of(driver, machine.id).leader()
    assert pid is not None
    return pid


def name_of(pid: int) -> str:
    return Path(f"/proc/{pid}/comm").read_text().strip()


# Boots


async def test_a_machine_is_who_the_plan_says(driver: NspawnDriver) -> None:
    order = plan(
        2,
        hostname="quiet-fox",
        files={"/etc/justavps/env": b"WORD='a b'\n", "/root/.ssh/authorized_keys": b"ssh-ed25519 AAAA x\n"},
        init_script='echo "$WORD" > /root/init.out; sleep 0.3',
        disk_gib=3,
    )
    async with started(driver, order) as machine:
        shown = await machine.execute(
            "hostname; hostname -s; cat /root/init.out; stat -c '%a' /root/.ssh /root/.ssh/authorized_keys"
            " /etc/justavps/env; systemctl is-system-running; getent hosts quiet-fox"
        )
        lines = shown.stdout.splitlines()
        assert lines[:7] == ["quiet-fox", "quiet-fox", "a b", "700", "600", "600", "running"]
        assert lines[7].split() == ["127.0.1.1", "quiet-fox"]
        size = await machine.execute("df -BM --output=size / | tail -1; df -P / | tail -1")
        assert 2800 < int(size.stdout.split()[0].rstrip("M")) < 3100
        before = await machine.healthz()
        await machine.execute("rm /root/init.out")
        await driver.reboot(machine.id)
        await machine.boots_anew(before["boot_id"])
        assert (await machine.execute("ls /root")).stdout == ""


async def test_an_init_script_that_fails_leaves_the_machine_not_bootstrapped(driver: NspawnDriver) -> None:
    order = plan(3, init_script="exit 3")
    await driver.create(order)
    address, port = driver.daemon_address(order.id)
    headers = {"Authorization": f"Bearer {order.daemon_token}"}
    async with httpx.AsyncClient(base_url=f"http://{address}:{port}", headers=headers, trust_env=False) as http:
        machine = TestMachine(driver, order.id, order.daemon_token, http)
        await machine.boots_anew("")
        health = await machine.healthz()
        assert (health["booted"], health["state"], health["bootstrapped"]) == (True, "degraded", False)
    await driver.delete(order.id)


async def test_a_boot_takes_about_a_second(driver: NspawnDriver) -> None:
    begun = time.monotonic()
    async with started(driver, plan(4)) as machine:
        wall = time.monotonic() - begun
        shown = await machine.execute("systemd-analyze | head -1; systemd-analyze blame | head -5")
        print(f"ordered to booted: {wall:.2f} s\n{shown.stdout}")  # noqa: T201 - evidence with -s
        assert (await machine.execute("systemctl --failed --no-legend")).stdout == ""
    assert wall < 20


async def test_a_machine_takes_as_few_inotify_instances_as_is_counted_for_it(
    driver: NspawnDriver, machine: TestMachine
) -> None:
    pids = group_of(driver, machine.id).pids()
    taken = sum(count for pid, count in resources.inotify_by_process().items() if pid in pids)
    assert 1 <= taken <= resources.INOTIFY_PER_MACHINE


async def test_no_unit_that_only_costs_runs(machine: TestMachine) -> None:
    shown = await machine.execute("systemctl is-enabled systemd-logind getty.target systemd-networkd console-getty")
    assert set(shown.stdout.split()) == {"masked"}


# Reboot, stop, start


async def test_a_hard_reboot_is_a_new_boot_with_the_old_disk_and_no_old_firewall(
    driver: NspawnDriver, machine: TestMachine
) -> None:
    before = await machine.healthz()
    await machine.execute("echo kept > /root/kept; nft add table inet mine; ip addr add 192.0.2.7/32 dev eth0")
    await driver.reboot(machine.id)
    await machine.boots_anew(before["boot_id"])
    shown = await machine.execute("cat /root/kept; nft list tables; ip -4 -o addr show eth0 | wc -l")
    assert shown.stdout == "kept\n1\n"
    assert float(str((await machine.healthz())["uptime_s"])) < 60


async def test_a_machine_stops_cleanly_and_starts_again(driver: NspawnDriver, machine: TestMachine) -> None:
    await machine.execute(
        "systemd-run -q --unit=witness -p ExecStop='/bin/sh -c \"echo clean > /root/witness\"' sleep infinity"
    )
    begun = time.monotonic()
    await driver.stop(machine.id)
    assert time.monotonic() - begun < 8
    assert await driver.power(machine.id) == MachinePower.STOPPED
    await driver.stop(machine.id)
    await driver.start(machine.id)
    await machine.wait_until_booted()
    assert (await machine.execute("cat /root/witness")).stdout == "clean\n"


async def test_a_machine_that_will_not_stop_is_forced(driver: NspawnDriver) -> None:
    async with started(driver, plan(5)) as machine:
        await machine.execute(
            "systemd-run -q -p TimeoutStopSec=300 -p KillMode=process sh -c \"trap '' TERM; while :; do sleep 1; done\""
        )
        begun = time.monotonic()
        await driver.stop(machine.id)
        assert 9 < time.monotonic() - begun < 20
        assert await driver.power(machine.id) == MachinePower.STOPPED


# Isolation and limits


def listener(address: str, port: int) -> socket.socket:
    server = socket.create_server((address, port))
    server.settimeout(5)
    return server


async def reaches(machine: TestMachine, address: object, port: int) -> bool:
    done = await machine.execute(f"timeout 1 bash -c 'exec 3<>/dev/tcp/{address}/{port}'")
    return done.exit_code == 0


async def test_a_machine_reaches_the_service_port_and_nothing_else(driver: NspawnDriver, machine: TestMachine) -> None:
    own = next(a for a in _host_addresses() if not a.startswith(("127.", "10.213.")))
    with (
        listener(str(driver.gateway), 18080),
        listener(str(driver.gateway), 18081),
        listener("0.0.0.0", 0) as careless,  # noqa: S104 - a service that listens at all addresses; at a free port
        listener(own, 18080),
    ):
        async with started(driver, plan(6)) as other:
            neighbour, careless_port = driver.daemon_address(other.id)[0], careless.getsockname()[1]
            assert await reaches(machine, driver.gateway, 18080)
            # Even as root on the machine, with a route of its own making.
            await machine.execute(f"ip route add default via {driver.gateway} dev eth0 onlink")
            for address, port in (
                (driver.gateway, 18081),
                (driver.gateway, careless_port),
                (own, 18080),
                (own, careless_port),
                (neighbour, 7070),
                (neighbour, 22),
            ):
                assert not await reaches(machine, address, port), f"{address}:{port}"
            await machine.execute("ip route del default")


async def test_a_machine_cannot_speak_for_another(driver: NspawnDriver, machine: TestMachine) -> None:
    with listener(str(driver.gateway), 18080):
        forged = driver.subnet.split("/")[0].rsplit(".", 1)[0] + ".200"
        await machine.execute(
            f"ip addr add {forged}/32 dev eth0; ip route replace {driver.gateway}/32 dev eth0 src {forged}"
        )
        assert not await reaches(machine, driver.gateway, 18080)
        own = driver.daemon_address(machine.id)[0]
        await machine.execute(
            f"ip route replace {driver.gateway}/32 dev eth0 src {own}; ip addr del {forged}/32 dev eth0"
        )
        assert await reaches(machine, driver.gateway, 18080)


def printed(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _host_addresses() -> list[str]:
    return [line.split()[3].split("/")[0] for line in printed("ip", "-4", "-o", "addr").splitlines()]


async def test_a_machine_has_its_own_memory_and_lives_when_it_is_full(driver: NspawnDriver) -> None:
    async with started(driver, plan(7, memory_mib=256)) as machine:
        before = await machine.healthz()
        eater = await machine.execute("python3 -c 'x = bytearray(400 * 1024 * 1024); print(len(x))'")
        assert eater.exit_code in (137, 1)
        assert eater.stdout == ""
        assert (await machine.healthz())["boot_id"] == before["boot_id"]


async def test_a_full_disk_hurts_only_the_machine_that_filled_it(driver: NspawnDriver) -> None:
    async with started(driver, plan(8, disk_gib=1)) as machine:
        filled = await machine.execute("head -c 2G /dev/zero > /root/full", timeout=120)
        assert "No space left" in filled.stderr
        answer = await machine.http.post("/toolbox/files/upload", params={"path": "/srv/x"}, content=b"x" * 5_000_000)
        assert (answer.status_code, answer.json()["code"]) == (507, "disk_full")
        assert (await machine.execute("ls -A /srv; rm /root/full; echo ok > /srv/y; cat /srv/y")).stdout == "ok\n"


async def test_root_inside_cannot_touch_the_clock_the_kernel_or_this_computers_settings(machine: TestMachine) -> None:
    for command in (
        "date -s 2020-01-01",
        "dmesg",
        "echo 1 > /proc/sys/vm/drop_caches",
        "losetup -f",
        "mknod /dev/x b 254 0 && head -c1 /dev/x",
    ):
        assert (await machine.execute(command)).exit_code != 0, command


_LOOK_OUT = """
for it in $(awk '$2 > 0 { print $1 }' /proc/cgroups); do
  mount -t cgroup -o $it none /mnt && { echo looked; ls /mnt; umount /mnt; }
done
mount -t cgroup -o devices none /mnt && { echo a >/mnt/devices.allow && echo lifted; umount /mnt; }
mount -t devtmpfs none /mnt && for it in null loop-control kmsg kvm; do (: </mnt/$it) && echo opened $it; done
"""


@pytest.mark.skipif(not Path("/sys/fs/cgroup/devices").exists(), reason="version 2 has neither")
async def test_root_inside_meets_no_hierarchys_root_and_no_device_of_this_computer(machine: TestMachine) -> None:
    """The root of a hierarchy holds ``release_agent``, a program that the kernel runs as this computer's root."""
    lines = (await machine.execute(f"unshare --mount sh <<'END'{_LOOK_OUT}END")).stdout.splitlines()
    assert "looked" in lines
    assert "release_agent" not in lines
    assert "lifted" not in lines
    assert [line for line in lines if line.startswith("opened")] == ["opened null"]


# Room


async def test_a_machine_that_would_not_boot_is_refused_with_the_figures(
    driver: NspawnDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = traces(driver._state)
    monkeypatch.setattr(resources, "free_resources", lambda *_: resources.FreeResources(128, 9, 9000, 9000))
    assert (await driver.capacity()).machines == 0
    order = plan(9)
    with pytest.raises(RefusedError, match="9 of 128 inotify instances free"):
        await driver.create(order)
    assert await driver.power(order.id) == MachinePower.ABSENT
    assert traces(driver._state) == known


async def test_a_machine_that_still_boots_is_counted_as_if_it_had(driver: NspawnDriver) -> None:
    free = driver.open_world.free_resources().inotify_free
    order = plan(10)
    await driver.create(order)
    assert free - driver.open_world.free_resources().inotify_free >= resources.INOTIFY_PER_MACHINE
    await driver.delete(order.id)


@pytest.mark.usefixtures("machine")
async def test_an_address_is_given_once(driver: NspawnDriver) -> None:
    with pytest.raises(RefusedError, match="has number 1 already"):
        await driver.create(plan(1))
    with pytest.raises(RefusedError, match="no address"):
        await driver.create(plan(100_000))


# Images


async def test_an_image_is_one_instant_of_a_running_machine_and_what_boots_from_it_is_new(
    driver: NspawnDriver, machine: TestMachine
) -> None:
    await machine.execute(
        "rm /etc/logrotate.conf; mkdir /srv/made; head -c 20M /dev/urandom > /srv/made/data;"
        "systemd-run -q --unit=ticker sh -c 'while :; do echo a >> /root/a; echo b >> /root/b; done';"
        "until test -s /root/b; do sleep 0.05; done"
    )
    first = ImageId(str(uuid4()))
    saved = await driver.save_image(machine.id, first)
    await machine.execute("systemctl stop ticker")
    assert saved > 20_000_000
    assert await driver.save_image(machine.id, first) == saved
    sha = (await machine.execute("sha256sum /srv/made/data")).stdout
    order = plan(11, image_id=first, hostname="second", init_script="echo again > /root/init.out")
    async with started(driver, order) as copy:
        shown = await copy.execute("sha256sum /srv/made/data; ls /etc/logrotate.conf; cat /root/init.out; hostname")
        assert shown.stdout == f"{sha}again\nsecond\n"
        counts = (await copy.execute("wc -l < /root/a; wc -l < /root/b")).stdout.split()
        assert int(counts[0]) - int(counts[1]) in (0, 1)
        ids = [(await each.execute("cat /etc/machine-id")).stdout for each in (machine, copy)]
        assert ids[0] != ids[1]
        with pytest.raises(RefusedError, match="is used by machine"):
            await driver.delete_image(first)
        await copy.execute("echo more > /srv/made/more; rm /srv/made/data")
        await driver.stop(copy.id)
        second = ImageId(str(uuid4()))
        await driver.save_image(copy.id, second)
    await driver.delete_image(first)
    async with started(driver, plan(12, image_id=second)) as third:
        assert (await third.execute("ls /srv/made")).stdout == "more\n"
    await driver.delete_image(second)
    await driver.delete_image(second)
    assert [entry.name for entry in driver._store.layers.iterdir() if not entry.name.startswith("vendor-")] == []


async def test_an_image_does_not_hold_the_daemons_bearer(driver: NspawnDriver, machine: TestMachine) -> None:
    image = ImageId(str(uuid4()))
    await driver.save_image(machine.id, image)
    layer = driver._store.layers / image
    assert printed("grep", "-rl", machine.token, str(layer)) == ""
    await driver.delete_image(image)


# Crashes

DIE = """
import asyncio
from pathlib import Path
from hermesops.localcloud.drivers.nspawn import machine, store
from hermesops.localcloud.drivers.nspawn.computer import cgroup
from hermesops.localcloud.drivers.nspawn.disks import guest_files
from hermesops.localcloud.drivers.nspawn.disks import disk
from tests.support.crash.death import Death, kill_this_process
from tests.support.real.machines.machine import new_driver, plan

def after(owner, name, count=1):
    setattr(owner, name, Death.after(count, kill=kill_this_process).around(getattr(owner, name)))

async def main():
    world = new_driver(Path({state!r}))
    await world.open()
    {arm}
    order = plan(1, id={machine!r}, daemon_token={token!r})
    await world.create(order)
    {then}
    kill_this_process()

asyncio.run(main())
"""

CUTS = {
    "record written": "after(store.Store, 'save_machine')",
    "disk made": "after(disk.Disk, 'make')",
    "disk mounted": "after(disk.Disk, 'mount')",
    "contents written": "after(guest_files, 'personalise')",
    "groups made": "after(cgroup.MachineGroup, 'create')",
    "keeper started": "after(machine, 'launch')",
    "booted": "after(machine.Machine, 'set_off')",
    "recorded": "after(store.Store, 'save_machine', 2)",
}


def run_and_die(state: Path, machine: str, token: str = "t", *, arm: str = "", then: str = "pass") -> None:  # noqa: S107
    run_until_killed(DIE.format(state=str(state), machine=machine, token=token, arm=arm, then=then))


@pytest.mark.parametrize("cut", CUTS)
async def test_a_server_killed_while_it_makes_a_machine_leaves_nothing_half_made(state: Path, cut: str) -> None:
    machine = str(uuid4())
    run_and_die(state, machine, arm=CUTS[cut])
    async with opened_driver(state) as driver:
        power = await driver.power(plan(1, id=machine).id)
        if cut == "recorded":
            assert power in (MachinePower.BOOTING, MachinePower.RUNNING)
        else:
            assert power == MachinePower.ABSENT
            assert [trace for trace in traces(state) if f"lc{tag_of(state)}-" in trace or machine in trace] == []
        await driver.create(plan(1, id=machine))
        await becomes_running(driver, machine)
    assert traces(state) == []


def _processes_of(machine: str) -> set[int]:
    """Of this computer, those that bear the machine's id in their command: what keeps it running."""
    commands = {int(path.name): path / "cmdline" for path in Path("/proc").iterdir() if path.name.isdecimal()}
    numbers = set()
    for pid, command in commands.items():
        with contextlib.suppress(OSError):
            if machine.encode() in command.read_bytes():
                numbers.add(pid)
    return numbers


async def becomes_running(driver: NspawnDriver, machine: str) -> None:
    async def observe() -> bool | Pending[bool]:
        power = await driver.power(plan(1, id=machine).id)
        return True if power == MachinePower.RUNNING else Pending(power)

    await until(observe, what="running", timeout_s=15, every_s=0.05)


async def test_machines_outlive_their_server_and_are_found_again(state: Path) -> None:
    machine, token = str(uuid4()), "bearer-of-the-first-server"
    run_and_die(state, machine, token)
    before_the_second = _processes_of(machine)
    assert before_the_second
    async with opened_driver(state) as driver:
        order = plan(1, id=machine, daemon_token=token)
        await becomes_running(driver, machine)
        await driver.create(order)
        address, port = driver.daemon_address(order.id)
        headers = {"Authorization": f"Bearer {token}"}
        async with httpx.AsyncClient(base_url=f"http://{address}:{port}", headers=headers, trust_env=False) as http:
            survivor = TestMachine(driver, order.id, token, http)
            await survivor.wait_until_booted()
            before = await survivor.healthz()
            assert before_the_second <= _processes_of(machine), "it was made anew"
            await survivor.execute("(sleep 0.2; systemctl reboot) >/dev/null 2>&1 &")
            await survivor.boots_anew(before["boot_id"])
    assert traces(state) == []


@pytest.mark.parametrize("victim", ["keeper", "nspawn", "first process", "all but the first process"])
async def test_whatever_is_killed_nothing_is_left_after_a_delete(state: Path, victim: str) -> None:
    async with opened_driver(state) as driver:
        idle = traces(state)
        async with started(driver, plan(1)) as machine:
            pids = group_of(driver, machine.id).pids()
            names = {pid: name_of(pid) for pid in pids}
            first = leader(driver, machine)
            chosen = {
                "keeper": [pid for pid, name in names.items() if name == "sh"],
                "nspawn": [pid for pid, name in names.items() if name == "systemd-nspawn"],
                "first process": [first],
                "all but the first process": [pid for pid in pids if pid != first],
            }[victim]
            assert chosen
            for pid in chosen:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        assert traces(state) == idle
    assert traces(state) == []


async def test_an_orphaned_machine_can_be_rebooted(state: Path) -> None:
    async with opened_driver(state) as driver, started(driver, plan(1)) as machine:
        group = group_of(driver, machine.id)
        before = await machine.healthz()
        for pid in group.pids():
            if name_of(pid) in ("sh", "systemd-nspawn"):
                os.kill(pid, signal.SIGKILL)
        assert (await machine.healthz())["boot_id"] == before["boot_id"]
        await driver.reboot(machine.id)
        await machine.boots_anew(before["boot_id"])


async def test_a_world_whose_server_was_killed_is_purged_without_being_opened(state: Path) -> None:
    run_and_die(state, str(uuid4()))
    assert traces(state)
    begun = time.monotonic()
    await new_driver(state).close(purge=True)
    assert time.monotonic() - begun < 10
    assert traces(state) == []
    assert printed("ls", "-A", str(state)) == ""


async def test_a_world_with_damaged_records_says_so_and_can_be_purged(state: Path) -> None:
    machine = str(uuid4())
    run_and_die(state, machine)
    (state / "machines" / machine / "machine.json").write_text("{")
    with pytest.raises(BrokenInvariantError, match=r"machine\.json is damaged") as caught:
        await opened(state)
    assert "purge" in str(caught.value.hint)
    (state / "driver.json").write_text("")
    with pytest.raises(BrokenInvariantError, match=r"driver\.json is damaged"):
        await opened(state)
    (state / "machines" / ".gone-other").mkdir()
    await new_driver(state).close(purge=True)
    assert traces(state) == []
    assert printed("ls", "-A", str(state)) == ""


async def opened(state: Path) -> None:
    driver = new_driver(state)
    try:
        await driver.open()
    finally:
        await driver.close(purge=False)


async def test_a_world_has_one_owner_and_two_worlds_do_not_meet(state: Path, driver: NspawnDriver) -> None:
    async with opened_driver(state) as nspawn_driver:
        with pytest.raises(RefusedError, match="another process drives"):
            await new_driver(state).open()
        assert nspawn_driver.subnet != driver.subnet
        assert nspawn_driver.subnet in printed("ip", "route")
        async with started(nspawn_driver, plan(1)) as machine:
            assert (await machine.execute("true")).exit_code == 0
        subnet = nspawn_driver.subnet
    assert traces(state) == []
    assert subnet not in printed("ip", "route")


async def test_a_deleted_machine_gives_its_disk_back_while_younger_ones_run(driver: NspawnDriver) -> None:
    begun = time.monotonic()
    async with started(driver, plan(30)) as older, started(driver, plan(31)):
        await driver.delete(older.id)
        assert older.id not in printed("losetup", "-a")
    print(f"two made and deleted in {time.monotonic() - begun:.2f} s")  # noqa: T201 - evidence with -s


async def test_six_machines_boot_side_by_side(driver: NspawnDriver) -> None:
    begun = time.monotonic()
    async with contextlib.AsyncExitStack() as stack:
        orders = [plan(number) for number in range(20, 26)]
        machines = await asyncio.gather(*(stack.enter_async_context(started(driver, order)) for order in orders))
        print(f"six booted in {time.monotonic() - begun:.2f} s")  # noqa: T201 - evidence with -s
        states = [str((await machine.healthz())["state"]) for machine in machines]
        assert states == ["running"] * 6
        names = [(await machine.execute("hostname")).stdout.strip() for machine in machines]
        assert names == [f"m{number}" for number in range(20, 26)]
