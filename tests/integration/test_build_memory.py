"""A build that takes too much memory is ended by the kernel, where systemd counts it: on a whole computer.

The walls are those of ``release build --source``, run there by ``Isolation`` for root and for a user without rights,
each in a unit that ``systemd-run`` makes. Each of the build's processes stays below what one may reserve.
"""

import os
import shutil
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass

import pytest

from tests.support.real.machines.qemu_guest import Guest, booted_guest
from tests.support.releases import build_walls
from tests.support.releases.build_walls import End
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.qemu

_MIB = 1 << 20
_LIMIT = 256 * _MIB
_COMPUTER_MIB = 1024
_TAKES = "import sys\ntaken = bytearray(b'x') * ({mib} << 20)\nprint('had it all')"
_FORKS = """
import os, sys, time
children = []
for _ in range(4):
    child = os.fork()
    if not child:
        taken = bytearray(b'x') * (100 << 20)
        time.sleep(20)
        os._exit(0)
    children.append(child)
print([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children])
"""
_FILES = "open('/build/large', 'wb').write(bytes(200 << 20)); open('/build/other', 'wb').write(bytes(200 << 20))"
_RESERVES = """
import mmap
held = mmap.mmap(-1, 6 << 30, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print('had it all')
"""
"""More than a limit of address space permits, and hardly any memory."""

_UNITS = "systemctl list-units --all --no-legend --plain --type=scope 'run-*'"
_USERS_UNITS = f"setpriv --reuid=builder --regid=builder --init-groups env XDG_RUNTIME_DIR=/run/user/1000 {_UNITS}"


_USERS_SYSTEMD = (
    "systemctl unmask systemd-logind.service && systemctl restart dbus systemd-logind"
    " && loginctl enable-linger builder && systemctl start user@1000.service"
)
"""Machines have no logind, and so no systemd for each user."""


@dataclass
class Bench:
    """A booted computer with the walls on it, and a user without rights whose own systemd runs."""

    guest: Guest

    async def build(self, code: str, user: str, limits: Mapping[str, float]) -> End:
        """Run a build as a user."""
        await self.guest.put("/run/setup.py", code)
        home = {"HOME": "/root" if user == "root" else f"/home/{user}"}
        command = build_walls.command({"seconds": 120, **limits})
        done = await self.guest.run(command, user=user, env=home, cwd="/", timeout_s=300)
        assert done.exit_code == 0, f"{done.text} {done.stderr.decode()}"
        return End.read(done.text)

    async def left(self) -> str:
        """Files, processes and units of a build that are on the computer."""
        users = _USERS_UNITS.replace("systemctl", "systemctl --user")
        commands = (build_walls.LEFT, build_walls.RUNNING, _UNITS, users)
        return "".join([await self.guest.output(command) for command in commands])


@pytest.fixture(scope="module")
async def bench() -> AsyncIterator[Bench]:
    require(os.geteuid() == 0, "root")  # makes what the computer boots from
    require(shutil.which("bwrap") is not None, "bubblewrap")
    packages = ("bubblewrap", "dbus-user-session", "libpam-systemd")
    async with booted_guest(memory_mib=_COMPUTER_MIB, packages=packages) as guest:
        await guest.put("/run/walls.tar", build_walls.packed())
        await guest.put("/opt/build.py", build_walls.RUN)
        await guest.output(build_walls.UNPACK)
        await guest.output(_USERS_SYSTEMD, timeout_s=200)
        await guest.output("touch /run/begun")
        yield Bench(guest)


BY_ROOT_AND_ANYBODY = pytest.mark.parametrize("user", ["root", "builder"])


async def _is_too_much(bench: Bench, user: str, code: str) -> None:
    end = await bench.build(code, user, {"memory_bytes": _LIMIT})
    assert end.counted == _LIMIT
    assert end.refused == "the build used more than 256 MiB of memory and was stopped"
    assert "compare the SHA-256 with the one that upstream publishes" in end.hint
    assert await bench.left() == ""


@BY_ROOT_AND_ANYBODY
async def test_a_build_that_takes_too_much_is_ended_named_and_leaves_nothing(bench: Bench, user: str) -> None:
    await _is_too_much(bench, user, _TAKES.format(mib=400))


async def test_processes_below_the_limit_each_are_ended_together(bench: Bench) -> None:
    await _is_too_much(bench, "builder", _FORKS)


async def test_files_in_memory_count(bench: Bench) -> None:
    await _is_too_much(bench, "root", _FILES)


async def test_a_build_gets_no_more_than_half_of_the_computer(bench: Bench) -> None:
    end = await bench.build(_TAKES.format(mib=900), "root", {})
    assert 0 < end.counted < _COMPUTER_MIB * _MIB // 2
    assert end.refused == f"the build used more than {end.counted // _MIB} MiB of memory and was stopped"
    assert await bench.left() == ""


async def test_a_build_within_its_limit_runs_whatever_it_reserves(bench: Bench) -> None:
    end = await bench.build(_RESERVES, "builder", {"memory_bytes": _LIMIT})
    assert (end.output.strip(), end.refused, end.counted) == ("had it all", "", _LIMIT)
    assert await bench.left() == ""


@BY_ROOT_AND_ANYBODY
async def test_a_build_whose_memory_is_counted_ends_in_time_with_its_unit(bench: Bench, user: str) -> None:
    end = await bench.build(build_walls.LINGERS, user, {"seconds": 40})
    assert end.refused == "the build did not end within 40 s and was stopped"
    assert end.counted
    assert await bench.left() == ""
