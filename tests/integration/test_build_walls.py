"""What a build from a source's archive can reach on a booted machine: nothing, for root as for anybody.

hermesops's own walls (``machines/release/source``) run there with the machine's Python and bubblewrap. Where they
cannot stand, the build is refused by name, and the machine has nothing of it afterwards.
"""

import io
import json
import os
import shutil
import tarfile
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from hermesops.base import assets
from tests.support.real.machines.machine import Executed, TestMachine, booted_machine
from tests.support.suite.prerequisites import require

pytestmark = [pytest.mark.machines, pytest.mark.turns(30)]

_SOURCES = Path("/opt/walls")
_CODE = (
    "errors.py",
    *(f"machines/release/source/{name}.py" for name in ("archive", "inside", "isolation", "memory_scope")),
)
_PACKAGES = ("", "machines", "machines/release", "machines/release/source")
_BUILD = f"""
import json, sys
sys.path.insert(0, "{_SOURCES}")
from hermesops.errors import RefusedError
from hermesops.machines.release.source.archive import SourceFile
from hermesops.machines.release.source.isolation import PYTHON, Isolation, Limits
isolation = Isolation(Limits(seconds=float(sys.argv[1])), bwrap=sys.argv[2])
files = {{"source/setup.py": SourceFile(sys.stdin.buffer.read())}}
try:
    end = {{"output": isolation.run("the build", [PYTHON, "-I", "setup.py"], files, {{}}).decode()}}
except RefusedError as error:
    end = {{"refused": error.message, "hint": str(error.hint)}}
print(json.dumps(end))
"""
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
_LINGERS = """
import os, time
if not os.fork():
    os.setsid()
    time.sleep(4242)
time.sleep(4242)
"""
_LEFT = "find / -xdev \\( -name planted -o -name 'hermesops-kills-*' -o -path '/tmp/*' -newer /run/begun \\)"


@dataclass
class Bench:
    """A booted machine with the walls on it, and a user without rights."""

    machine: TestMachine

    async def done(self, command: str, **options: object) -> Executed:
        done = await self.machine.execute(command, **options)
        assert done.exit_code == 0, f"{command}: {done.stdout} {done.stderr}"
        return done

    async def build(self, code: str, user: str, *, seconds: float = 30, bwrap: str = "bwrap", around: str = "") -> Any:  # noqa: ANN401 - JSON
        """Run a build as a user; its output, or the refusal."""
        await self.machine.upload("/run/setup.py", code.encode(), mode="644")
        command = f"{around} python3 -I /opt/build.py {seconds:g} {bwrap} </run/setup.py"
        home = {"HOME": "/root" if user == "root" else f"/home/{user}"}
        done = await self.done(command, user=user, env=home, cwd="/", timeout=120)
        return json.loads(done.stdout)

    async def left(self) -> list[str]:
        """Files of a build, and processes of it, that are on the machine."""
        files = (await self.done(_LEFT)).stdout.split()
        processes = (await self.done("ps -eo args=")).stdout.splitlines()
        running = [line for line in processes if "bwrap" in line or "setup.py" in line]
        return [*files, *running]


def _bwrap() -> bytes:
    """This computer's bubblewrap, as the base of machines has none; both are Debian 12 or newer."""
    return Path(shutil.which("bwrap") or "").read_bytes()


def _packed() -> bytes:
    """The modules of the walls, without the packages around them, whose imports a machine lacks."""
    packed, root = io.BytesIO(), assets.folder("roles").parent / "hermesops"
    with tarfile.open(fileobj=packed, mode="w") as archive:
        for name in _CODE:
            archive.add(root / name, f"hermesops/{name}")
        for package in _PACKAGES:
            archive.addfile(tarfile.TarInfo(f"hermesops/{package}/__init__.py"), io.BytesIO())
    return packed.getvalue()


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    require(os.geteuid() == 0, "root, to boot machines")
    require(shutil.which("bwrap") is not None, "bubblewrap")
    async with booted_machine() as machine:
        await machine.wait_until_booted()
        bench = Bench(machine)
        await machine.upload("/usr/bin/bwrap", _bwrap(), mode="755")
        await machine.upload("/run/walls.tar", _packed())
        await machine.upload("/opt/build.py", _BUILD.encode(), mode="644")
        await bench.done(f"mkdir -p {_SOURCES} && tar -xf /run/walls.tar -C {_SOURCES} && useradd -m builder")
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
    end = json.loads((await bench.build(_REACHES.replace("GATEWAY", gateway), user))["output"])
    assert end["reached"] == []
    assert end["environment"] == ["HOME", "LC_ALL", "PATH", "PWD", "TMPDIR"]
    assert await bench.left() == []


@USERS
async def test_a_build_ends_in_time_with_all_that_it_started(bench: Bench, user: str) -> None:
    end = await bench.build(_LINGERS, user, seconds=4)
    assert end["refused"] == "the build did not end within 4 s and was stopped"
    assert await bench.left() == []


@USERS
async def test_where_no_walls_stand_a_build_is_refused_by_name_and_nothing_of_it_is_left(
    bench: Bench, user: str
) -> None:
    missing = await bench.build("print('built')", user, bwrap="no-such-bwrap")
    assert missing["refused"].startswith("building from source needs bubblewrap")
    assert "apt-get install bubblewrap" in missing["hint"]
    unit = f"systemd-run --quiet --pipe --wait --collect --property=RestrictNamespaces=yes --uid={user}"
    forbidden = await bench.build("print('built')", "root", around=unit)
    assert forbidden["refused"].startswith("this computer does not allow the walls around a build: bwrap:")
    assert await bench.left() == []
