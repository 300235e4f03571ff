"""A build that takes too much memory is ended by the kernel, where systemd counts it: on a whole computer.

The walls are those of ``release build --source``; each of the build's processes stays below what one may reserve.
"""

import io
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from hermesops.machines.release.source.archive import SourceFile
from hermesops.machines.release.source.isolation import PYTHON, Isolation, Limits, pack
from hermesops.machines.release.source.memory_scope import MemoryScope, kills_in
from hermesops.vendor.channel import Completed
from tests.support.real.machines.qemu_guest import Guest, booted_guest
from tests.support.suite.prerequisites import require

pytestmark = pytest.mark.qemu

_MIB = 1 << 20
_LIMIT = 256 * _MIB
_REPORT = Path("/root/kills")
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
_FILES = "open('/build/large', 'wb').write(bytes(400 << 20))"
_RESERVES = """
import mmap
held = mmap.mmap(-1, 6 << 30, flags=mmap.MAP_PRIVATE, prot=mmap.PROT_READ)
print('had it all')
"""
"""More than a limit of address space permits, and hardly any memory."""


@pytest.fixture(scope="module")
async def guest() -> AsyncIterator[Guest]:
    """A booted computer with bubblewrap."""
    require(os.geteuid() == 0, "root")  # the command is the one of root
    async with booted_guest(memory_mib=1024, packages=("bubblewrap",)) as guest:
        yield guest


async def _run(guest: Guest, code: str) -> tuple[Completed, int]:
    """Run a program behind the walls in a group of its own; its end, and the processes that the kernel ended."""
    packed = io.BytesIO()
    pack({"source/setup.py": SourceFile(code.encode())}, packed)
    isolation = Isolation(Limits(memory_bytes=_LIMIT, seconds=60.0))
    words = isolation.command([PYTHON, "-I", "setup.py"], {}, MemoryScope(_LIMIT), _REPORT)
    await guest.put("/root/given.tar", packed.getvalue())
    await guest.put("/root/run.sh", 'exec "$@" </root/given.tar\n')
    command = " ".join(_quoted(word) for word in words)
    done = await guest.run(f"sh /root/run.sh {command}", timeout_s=120)
    report = await guest.run(f"cat {_REPORT}")
    return done, kills_in(report.text.encode())


def _quoted(word: str) -> str:
    return "'" + word.replace("'", "'\\''") + "'"


async def test_the_limit_holds_here(guest: Guest) -> None:
    trial = " ".join(_quoted(word) for word in MemoryScope(_LIMIT).trial())
    assert (await guest.output(trial)).strip() == str(_LIMIT)


@pytest.mark.parametrize(
    ("code", "why"),
    [(_TAKES.format(mib=400), "one process"), (_FORKS, "processes below the limit each"), (_FILES, "files in memory")],
    ids=["process", "processes", "files"],
)
async def test_a_build_that_takes_too_much_is_ended_and_counted(guest: Guest, code: str, why: str) -> None:
    done, kills = await _run(guest, code)
    assert kills >= 1, f"{why}: {done}"
    assert "had it all" not in done.text
    assert (
        "no such" not in (await guest.run("systemctl list-units --type=scope --no-legend | grep -c run- || true")).text
    )


@pytest.mark.parametrize("code", [_TAKES.format(mib=100), _RESERVES], ids=["small", "reserves"])
async def test_a_build_within_its_limit_runs_whatever_it_reserves(guest: Guest, code: str) -> None:
    done, kills = await _run(guest, code)
    assert (done.exit_code, done.text.strip(), kills) == (0, "had it all", 0), done
