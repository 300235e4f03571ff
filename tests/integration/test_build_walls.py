"""What a build from a source's archive can reach on a booted machine: nothing, for root as for anybody.

hermesops's own walls (``machines/release/source``) run there with the machine's Python and bubblewrap. Where they
cannot stand, the build is refused by name, and the machine has nothing of it afterwards.
"""

import json
import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType

import pytest

from tests.support.real.machines.machine import Executed, TestMachine, booted_machine
from tests.support.releases import build_walls
from tests.support.releases.build_walls import End
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.machines, pytest.mark.turns(30)]

_REACHES = """
import json, os, socket, sys
reached = []
def tries(name, act, *words):
    try:
        act(*words)
    except OSError:
        return
    reached.append(name)
def connects(*address):
    socket.create_connection(address, 3).close()
def sees(path):
    os.listdir(path) if os.path.isdir(path) else os.stat(path)
def writes(folder):
    open(folder + "/planted", "w").close()
for host in ("127.0.0.1", "GATEWAY"):
    tries("network", connects, host, 8099)
tries("systemd", socket.socket(socket.AF_UNIX).connect, "/run/systemd/private")
for path in ("/root", "/home", "/etc/passwd", "/var", "/run", "/proc/1", "/srv/secret", "/sys/kernel"):
    tries("see " + path, sees, path)
for folder in ("/usr/lib", "/usr/bin", "/root", "/home", "/var/tmp", "/tmp", "/etc", "/srv", "/", "/dev"):
    tries("write " + folder, writes, folder)
tries("be root", os.setuid, 0)
tries("make a device", os.mknod, "planted", 0o60600, os.makedev(8, 0))
tries("rename the machine", socket.sethostname, "planted")
print(json.dumps({"reached": reached, "environment": sorted(os.environ)}))
"""
_ALL = {"network", "see /srv/secret", "see /home", "write /usr/lib", "be root", "write /"}
_NONE: Mapping[str, float] = MappingProxyType({})


@dataclass
class Bench:
    """A booted machine with the walls on it, and a user without rights."""

    machine: TestMachine

    async def done(self, command: str, **options: object) -> Executed:
        done = await self.machine.execute(command, **options)
        assert done.exit_code == 0, f"{command}: {done.stdout} {done.stderr}"
        return done

    async def build(
        self, code: str, user: str, limits: Mapping[str, float] = _NONE, *, bwrap: str = "bwrap", around: str = ""
    ) -> End:
        """Run a build as a user."""
        await self.machine.upload("/run/setup.py", code.encode(), mode="644")
        command = build_walls.command({"seconds": 30, **limits}, bwrap=bwrap, around=around)
        home = {"HOME": "/root" if user == "root" else f"/home/{user}"}
        done = await self.done(command, user=user, env=home, cwd="/", timeout=120)
        return End.read(done.stdout)

    async def left(self) -> list[str]:
        """Files of a build, and processes of it, that are on the machine."""
        files, running = await self.done(build_walls.LEFT), await self.done(build_walls.RUNNING)
        return [*files.stdout.split(), *running.stdout.splitlines()]


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    require(os.geteuid() == 0, "root, to boot machines")
    require(shutil.which("bwrap") is not None, "bubblewrap")
    async with booted_machine() as machine:
        await machine.wait_until_booted()
        bench = Bench(machine)
        await machine.upload("/usr/bin/bwrap", build_walls.bubblewrap(), mode="755")
        await machine.upload("/run/walls.tar", build_walls.packed())
        await machine.upload("/opt/build.py", build_walls.RUN.encode(), mode="644")
        await bench.done(build_walls.UNPACK)
        await bench.done("echo secret >/srv/secret")
        await bench.done("systemd-run --quiet --unit=listens python3 -m http.server --directory /srv 8099")
        await bench.done("loginctl enable-linger builder || true; touch /run/begun")
        yield bench


USERS = pytest.mark.parametrize("user", ["root", "builder"])


@USERS
async def test_a_build_reaches_no_network_no_home_and_writes_nothing_outside(bench: Bench, user: str) -> None:
    gateway = (await bench.done("ip -4 route show default | cut -d' ' -f3")).stdout.strip()
    await bench.machine.upload("/run/reaches.py", _REACHES.replace("GATEWAY", gateway).encode())
    without_walls = json.loads((await bench.done("cd /srv && python3 -I /run/reaches.py")).stdout)
    await bench.done("find / -xdev -name planted -delete; hostname -F /etc/hostname; touch /run/begun")
    assert set(without_walls["reached"]) >= _ALL, "a probe that reaches nothing proves nothing"
    end = json.loads((await bench.build(_REACHES.replace("GATEWAY", gateway), user)).output)
    assert end["reached"] == []
    assert end["environment"] == ["HOME", "LC_ALL", "PATH", "PWD", "TMPDIR"]
    assert await bench.left() == []


_MIB = 1 << 20
_REACHED = {
    "time": (build_walls.LINGERS, {"seconds": 4}, "did not end within 4 s and was stopped"),
    "memory": ("bytearray(700 << 20)", {"memory_bytes": 512 * _MIB}, "at its limit of 512 MiB of memory: MemoryError"),
    "processes": (build_walls.FORKS, {}, "at its limit of 64 processes: BlockingIOError"),
    "a file": (build_walls.FILLS, {}, "at its limits of 256 MiB a file and 2048 MiB of files: OSError"),
    "files": (build_walls.FILLS_MANY, {"files_bytes": 64 * _MIB}, "256 MiB a file and 64 MiB of files: OSError"),
}


_COUNTED = "used more than 512 MiB of memory and was stopped"


@USERS
@pytest.mark.parametrize("limit", _REACHED)
async def test_a_build_that_reaches_a_limit_ends_with_all_that_it_started_and_is_named(
    bench: Bench, user: str, limit: str
) -> None:
    code, limits, named = _REACHED[limit]
    end = await bench.build(code, user, limits)
    # Few machines of the local world have the controllers with which systemd counts memory.
    assert (_COUNTED if limit == "memory" and end.counted else named) in end.refused
    assert end.refused.startswith("the build ")
    assert "compare the SHA-256 with the one that upstream publishes" in end.hint
    assert await bench.left() == []


@USERS
async def test_where_no_walls_stand_a_build_is_refused_by_name_and_nothing_of_it_is_left(
    bench: Bench, user: str
) -> None:
    missing = await bench.build("print('built')", user, bwrap="no-such-bwrap")
    assert missing.refused.startswith("building from source needs bubblewrap")
    assert "apt-get install bubblewrap" in missing.hint
    unit = f"systemd-run --quiet --pipe --wait --collect --property=RestrictNamespaces=yes --uid={user}"
    forbidden = await bench.build("print('built')", "root", around=unit)
    assert forbidden.refused.startswith("this computer does not allow the walls around a build: bwrap:")
    assert await bench.left() == []
