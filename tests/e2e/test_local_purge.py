"""A local world is purged with all that its registry knows of it, and what follows starts from nothing; by commands."""

import json
import shutil
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.crash.death import KILLED
from tests.support.real.commands.command import Command, local_world


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("purged"), image=False, driver="sim") as command:
        yield command


@pytest.fixture
async def demo(world: Command) -> Command:
    """A world in which the demo has run, whatever was done to it before."""
    await run_demo(world)
    return world


async def run_demo(command: Command) -> None:
    """What ``make demo`` runs."""
    await command.ok("local", "up")
    await command.ok("image", "build", "hermes-base")
    await command.ok("provision", "ada", "--plan", "light")
    assert "RUN: hostname" in (await command.ok("instance", "chat", "ada", "RUN: hostname", "--reason", "demo")).stdout


async def users(command: Command) -> list[str]:
    return [row["user"] for row in (await command.ok("instance", "list", "--json")).json["instances"]]


def folder(command: Command) -> Path:
    return command.home / "local"


async def purges(command: Command) -> list[int]:
    """How many instances each purge ended, by the audit."""
    entries = (await command.ok("audit", "log", "--json")).json["entries"]
    return [entry["before"]["instances"] for entry in entries if entry["action"] == "world_purged"]


@pytest.mark.turns(25)
async def test_the_demo_works_in_every_order(demo: Command) -> None:
    before = await purges(demo)
    await run_demo(demo)
    await demo.ok("local", "down")
    await run_demo(demo)
    purged = await demo.ok("local", "down", "--purge", "--yes")
    assert "for good: 1 user, 1 machine, 1 image." in purged.stderr
    assert not (folder(demo) / "world").exists()
    assert not (folder(demo) / "pulumi").exists()
    assert await users(demo) == []
    assert "there is no local world" in (await demo.ok("local", "down", "--purge")).stderr
    await run_demo(demo)
    assert await users(demo) == ["ada"]
    assert len(await demo.machines()) == 1
    assert (await demo.ok("cell", "list", "--json")).json["cells"][0]["machines"] == 1
    await demo.ok("audit", "verify")
    assert sorted(await purges(demo)) == sorted([*before, 1])


async def test_without_consent_nothing_is_touched(demo: Command) -> None:
    refused = await demo.run("local", "down", "--purge")
    assert (refused.exit_code, "not confirmed: nothing was touched" in refused.stderr) == (3, True)
    assert await users(demo) == ["ada"]
    await demo.ok("instance", "chat", "ada", "still there?", "--reason", "test")


@pytest.mark.turns(8)
async def test_a_purge_that_was_killed_is_finished_by_the_same_command(demo: Command) -> None:
    code = await demo.killed_at("the local world is gone", "local", "down", "--purge", "--yes")
    assert code == KILLED
    await demo.ok("local", "down", "--purge", "--yes")
    assert await users(demo) == []
    await run_demo(demo)


@pytest.mark.turns(8)
async def test_a_registry_that_outlived_its_world_is_said_and_cleared(demo: Command) -> None:
    await demo.ok("local", "down")
    shutil.rmtree(folder(demo) / "world")
    up = await demo.ok("local", "up")
    assert "the registry knows 1 user of a local world that is gone" in up.stderr
    assert "hermesops local down --purge" in up.stderr
    assert "1 user." in (await demo.ok("local", "down", "--purge", "--yes")).stderr
    assert "a local world that is gone" not in (await demo.ok("local", "up")).stderr
    await run_demo(demo)


@pytest.mark.turns(8)
async def test_a_registry_that_others_may_share_is_left_alone(demo: Command) -> None:
    """The same file by an address of its own stands for any that was given."""
    shared = demo.with_variables(HERMESOPS_REGISTRY_URL=f"sqlite:///{folder(demo) / 'registry.db'}")
    refused = await shared.run("local", "down", "--purge", "--yes")
    assert (refused.exit_code, "1 machine of this world" in refused.stderr) == (3, True), str(refused)
    assert "hermesops instance terminate USER" in refused.stderr
    assert await users(demo) == ["ada"]
    await demo.ok("instance", "chat", "ada", "still there?", "--reason", "test")


async def test_another_environment_is_never_purged(demo: Command) -> None:
    world = json.loads((folder(demo) / "world" / "world.json").read_text())
    other = demo.with_variables(HERMESOPS_ENV="staging", HERMESOPS_API_URL=f"{world['api_url']}/api/v1")
    refused = await other.run("local", "down", "--purge", "--yes")
    assert (refused.exit_code, "environment staging is not this computer's" in refused.stderr) == (3, True)
    assert len(await demo.machines()) == 1


@pytest.mark.turns(10)
@pytest.mark.parametrize(
    "change", ["UPDATE alembic_version SET version_num = '0042'", "ALTER TABLE users RENAME COLUMN created_at TO made"]
)
async def test_a_registry_of_another_hermesops_does_not_keep_a_world_alive(demo: Command, change: str) -> None:
    with closing(sqlite3.connect(folder(demo) / "registry.db")) as registry:
        registry.execute(change)
        registry.commit()
    purged = await demo.ok("local", "down", "--purge", "--yes")
    [aside] = folder(demo).glob("registry-of-another-hermesops-*")
    assert str(aside) in purged.stderr
    assert {"registry.db", "audit.anchor"} <= {path.name for path in aside.iterdir()}
    assert not (folder(demo) / "world").exists()
    shutil.rmtree(aside)
    await run_demo(demo)
    assert await users(demo) == ["ada"]
    await demo.ok("audit", "verify")


@pytest.mark.turns(8)
async def test_a_damaged_registry_does_not_keep_a_world_alive(demo: Command) -> None:
    for ending in ("", "-wal", "-shm"):
        (folder(demo) / f"registry.db{ending}").unlink(missing_ok=True)
    (folder(demo) / "registry.db").write_bytes(b"rubbish" * 1000)
    purged = await demo.run("local", "down", "--purge", "--yes")
    assert (purged.exit_code, "an unknown number of users" in purged.stderr) == (6, True), str(purged)
    assert "the local world is deleted, but the registry still lists it" in purged.stderr
    assert not (folder(demo) / "world").exists()
