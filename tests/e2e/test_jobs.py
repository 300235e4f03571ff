"""A worker does what falls due without anybody asking, in a simulated world whose rows are made older than they are."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.old_rows import grow_old

TIMEOUT_S = 120.0


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("jobs"), driver="sim") as command:
        yield command.with_variables(
            HERMESOPS_DRILL_DAYS="1", HERMESOPS_ENDED_BACKUPS_DAYS="0", HERMESOPS_POOL_SIZE="light=1"
        )


async def jobs(world: Command) -> dict[str, dict[str, Any]]:
    return {row["job"]: row for row in (await world.ok("job", "list", "--json")).json["jobs"]}


async def all_done(world: Command) -> bool | Pending[bool]:
    rows = await jobs(world)
    open_ones = {name: row for name, row in rows.items() if row["due"]}
    busy = (await world.ok("operation", "list", "--json")).json["operations"]
    return Pending(f"{open_ones} {busy}") if open_ones or busy else True


@pytest.mark.turns(20)
async def test_a_worker_does_all_that_is_due_and_another_one_follows_it(world: Command) -> None:
    for user in ("ada", "bob", "eve"):
        await world.with_variables(HERMESOPS_POOL_SIZE="").ok("provision", user, "--plan", "light")
    for user in ("ada", "bob"):
        await world.ok("backup", "create", user)
    await world.ok("instance", "terminate", "bob", "--yes", "--reason", "test")
    grow_old(world)
    due = {name: row["due"] for name, row in (await jobs(world)).items()}
    first_due = {"backups", "tokens", "model-budgets", "pools", "drill", "ended", "recovery-records"}
    assert {name for name, count in due.items() if count} == first_due
    assert (await world.ok("fleet", "status", "--json")).json["backups"]["late"] == 2

    first = await world.start("worker")
    task = asyncio.create_task(first.communicate())
    await until(lambda: all_done(world), what="all chores", timeout_s=TIMEOUT_S, every_s=1)
    first.kill()
    await task

    done = await jobs(world)
    assert {name: row["problem"] for name, row in done.items() if row["problem"]} == {}
    loss = (await world.ok("fleet", "status", "--json")).json["backups"]
    assert (loss["late"], loss["never"]) == (0, 0)
    tokens = (await world.ok("token", "list", "--json")).json["tokens"]
    assert sorted(row["user"] for row in tokens if row["purpose"] == "platform") == ["ada", "eve"]
    ready = (await world.ok("pool", "list", "--json")).json["machines"]
    assert [row["status"] for row in ready] == ["ready"]
    ended = (await world.ok("operation", "list", "--all", "--json")).json["operations"]
    assert [row["status"] for row in ended if row["kind"] == "drill"] == ["done"]
    assert {row["status"] for row in ended} == {"done"}
    proved = (await world.ok("backup", "list", "ada", "--json")).json["backups"]
    assert any(row["proved"] for row in proved)
    erased = (await world.ok("audit", "log", "--json")).json["entries"]
    assert [row["action"] for row in erased].count("repository_erased") == 1
    assert (await world.ok("fleet", "drift", "--json")).json["findings"] == []

    await world.ok("token", "revoke", "ada", "--reason", "test")
    second = await world.start("worker")
    task = asyncio.create_task(second.communicate())
    try:
        await until(lambda: all_done(world), what="the token", timeout_s=TIMEOUT_S, every_s=1)
    finally:
        second.terminate()
        await task
    tokens = (await world.ok("token", "list", "ada", "--json")).json["tokens"]
    assert "platform" in {row["purpose"] for row in tokens}


@pytest.mark.turns(8)
async def test_a_chore_is_done_by_hand_and_can_be_left_out(world: Command) -> None:
    for user in ("ada", "eve"):
        await world.ok("provision", user, "--plan", "light")
    grow_old(world)
    without = world.with_variables(HERMESOPS_WITHOUT_JOBS="backups, drill")
    shown = await jobs(without)
    assert (shown["backups"]["by_workers"], shown["tokens"]["by_workers"]) == (False, True)
    ran = await world.ok("job", "run", "backups", "--json")
    assert ran.json["done"] == "2 agents backed up"
    assert (await jobs(world))["backups"]["due"] == 0
    refused = await world.run("job", "run", "laundry")
    assert (refused.exit_code, "no job 'laundry'" in refused.stderr) == (2, True)
    unknown = await world.with_variables(HERMESOPS_WITHOUT_JOBS="laundry").run("job", "list")
    assert unknown.exit_code == 2


@pytest.mark.turns(8)
async def test_a_drill_takes_a_machine_of_the_pool_and_returns_none(world: Command) -> None:
    await world.ok("provision", "ada", "--plan", "light")
    await world.ok("backup", "create", "ada")
    await world.ok("job", "run", "pools")
    [pooled] = (await world.ok("pool", "list", "--json")).json["machines"]
    ran = await world.ok("drill", "restore", "ada", "--json")
    assert ran.json["proved"]["proved"]
    assert pooled["machine_name"] in ran.stderr
    assert pooled["machine_name"] not in {machine["name"] for machine in await world.machines()}
    nobody = await world.run("drill", "restore", "nobody")
    assert nobody.exit_code == 2
