"""The object store's program is built beside a world with an agent: who needs it waits, and hears how far it is."""

import asyncio
import os
from pathlib import Path

import pytest

from hermesops.access.registry_place import RegistryPlace
from hermesops.base.waiting import Pending, pause, until
from hermesops.platform.local import world as local_world_server
from hermesops.settings.environment import Environment
from tests.support.real.commands.command import local_world
from tests.support.real.stores.registries import placed
from tests.support.suite.kept import cached_bases

_GO = """#!/bin/sh
if [ "$1" = env ]; then echo go1.99.0; exit; fi
nice >{place}/nice
echo net/http >&2
echo $$ >{place}/pid
exec sleep 600
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with a Go that builds for ten minutes, and a cache that has the base of machines and nothing else."""
    (tmp_path / "cache").mkdir()
    (tmp_path / "cache" / "bases").symlink_to(cached_bases())
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "go").write_text(_GO.format(place=tmp_path))
    (tmp_path / "bin" / "go").chmod(0o755)
    return tmp_path


@pytest.mark.machines
async def test_a_world_builds_it_behind_the_first_agent_and_ends_it_with_the_server(place: Path) -> None:
    path = f"{place / 'bin'}:{os.environ['PATH']}"  # noqa: TID251 - the rest of it is the computer's
    variables = {"HERMESOPS_CACHE": str(place / "cache"), "PATH": path}
    async with local_world(place / "home", image=False, variables=variables) as command:
        await command.ok("instance", "list")
        assert not (place / "pid").exists(), "it competes with the first image"
        environment = Environment.load("local", {"HERMESOPS_HOME": str(place / "home"), "PATH": os.defpath})
        registry = RegistryPlace(environment, lambda *_, **__: None).open()
        placed(registry)
        registry.close()
        await written(place / "pid")
        assert (place / "nice").read_text() == "19\n"
        log = place / "home" / "local" / "world" / "server.log"
        assert "building the object store's program in the background" in log.read_text()
        await command.ok("local", "down")
        assert not is_running(place)
        (place / "pid").unlink()
        await command.ok("local", "up")
        await written(place / "pid")
        assert (is_running(place), (place / "nice").read_text()) == (True, "19\n")
    assert not is_running(place)


async def test_a_build_under_way_keeps_no_server_from_ending(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class World:
        async def serve(self, **_: object) -> None:
            await asyncio.sleep(0)  # noqa: TID251 - the build begins

    monkeypatch.setattr(local_world_server, "world_of", lambda *_: World())
    monkeypatch.setattr(local_world_server, "_build_beside", lambda *_, **__: asyncio.Event().wait())
    env = Environment.load("local", {"HERMESOPS_HOME": str(tmp_path), "PATH": os.defpath})
    async with asyncio.timeout(30):
        await local_world_server.serve_world(env, "sim", report=print, platform=())


async def test_nothing_is_built_before_there_is_an_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, accounts = asyncio.Event(), dict[str, str]()

    class Tools:
        def place(self, _: str) -> Path:
            return tmp_path / "versitygw"

        async def build(self, _: str) -> None:
            begun.set()

    class Registry:
        def read(self) -> dict[str, str]:
            return dict(accounts)

    monkeypatch.setattr(local_world_server, "_tools", lambda *_, **__: Tools())
    monkeypatch.setattr(local_world_server, "_LOOK_EVERY_S", 0.01)
    monkeypatch.setattr(local_world_server._Ledger, "_registry", lambda _: Registry())
    env = Environment.load("local", {"HERMESOPS_HOME": str(tmp_path), "PATH": os.defpath})
    ledger = local_world_server._Ledger(env)
    building = asyncio.create_task(local_world_server._build_beside(env, ledger, print, driver=""))
    for _ in range(5):
        ledger.read()
        await pause(0.02)
    assert not begun.is_set()
    accounts["ada"] = "hers"
    ledger.read()
    async with asyncio.timeout(20):
        await building
    assert begun.is_set()


async def written(file: Path) -> None:
    def is_written() -> bool:
        return file.exists() and file.read_text().endswith("\n")

    async def observe() -> bool | Pending[bool]:
        return is_written() or Pending("not yet")

    await until(observe, what=f"{file.name} to be written", timeout_s=30, every_s=0.05)


def is_running(place: Path) -> bool:
    """Whether the last Go runs; one that only waits to be asked for does not."""
    pid = (place / "pid").read_text().strip()
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2][0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
