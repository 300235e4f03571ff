"""A simulated world needs no program of this computer's, and neither Go nor a server of an object store."""

import os
from pathlib import Path

import pytest

from tests.support.real.commands.command import local_world


@pytest.mark.turns(20)
async def test_an_agents_life_needs_neither_go_nor_an_object_store(tmp_path: Path) -> None:
    nothing = tmp_path / "bin"
    nothing.mkdir()
    cache = tmp_path / "cache"  # of its own: that of other tests has a store that was built
    variables = {"PATH": str(nothing), "HERMESOPS_CACHE": str(cache)}
    options = ("--reason", "test")
    async with local_world(tmp_path / "home", driver="sim", variables=variables) as world:
        await world.ok("provision", "ada", "--plan", "light")
        backup_create = (await world.ok("backup", "create", "ada", "--json")).json["made"]
        assert (await world.ok("backup", "check", "ada", "--json")).json["checked"]["proved"]
        await world.ok("instance", "suspend", "ada", *options)
        await world.ok("instance", "resume", "ada", *options)
        await world.ok("instance", "resize", "ada", "--plan", "heavy", *options)
        restored = await world.ok(
            "backup", "restore", "ada", "--snapshot", backup_create["backup"][:12], *options, "--yes", "--json"
        )
        assert restored.json["backup"] == backup_create["backup"]
        assert (await world.ok("instance", "show", "ada", "--json")).json["instance"]["plan"] == "heavy"
        assert not (await world.ok("local", "status", "--json")).json["object_store"]
        await world.ok("instance", "terminate", "ada", "--yes", *options)
    programs = {file.name for file in cache.rglob("*") if file.is_file() and os.access(file, os.X_OK)}
    assert programs == {"hermes-node"}, "nothing was built or fetched but our own archive"
