"""Warm pools by command: filled, taken from, drained, on simulated machines."""

from collections.abc import AsyncIterator

import pytest

from tests.support.real.commands.command import Command, local_world


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("pool"), driver="sim") as command:
        yield command


async def test_a_newcomer_takes_a_machine_of_the_pool_and_an_empty_one_is_said(world: Command) -> None:
    pooled = world.with_variables(HERMESOPS_POOL_SIZE="light=1")
    assert (await world.ok("pool", "list", "--json")).json["machines"] == []
    await pooled.ok("job", "run", "pools")
    [ready] = (await pooled.ok("pool", "list", "--json")).json["machines"]
    assert (ready["status"], ready["role"], ready["instance_id"]) == ("ready", "warm", None)
    assert (await world.ok("fleet", "drift", "--json")).json["findings"] == []
    # With a pool of none: nobody is asked to make another one meanwhile.
    ada = await world.ok("provision", "ada", "--plan", "light", "--json")
    assert ada.json["instance"]["machine_name"] == ready["machine_name"]
    assert "out of the warm pool" in ada.stderr
    assert (await world.ok("instance", "chat", "ada", "hello", "--reason", "test")).stdout.strip() == "YOU SAID: hello"
    bob = await pooled.ok("provision", "bob", "--plan", "light", "--json")
    assert "takes longer" in bob.stderr
    assert (await world.ok("registry", "check", "--json")).json["contradictions"] == []


async def test_a_drained_pool_leaves_nothing(world: Command) -> None:
    pooled = world.with_variables(HERMESOPS_POOL_SIZE="light=1")
    await pooled.ok("job", "run", "pools")
    refused = await world.run("pool", "drain", "--all")
    assert refused.exit_code == 3
    await world.ok("pool", "drain", "--all", "--yes", "--reason", "test")
    assert (await world.ok("pool", "list", "--json")).json["machines"] == []
    rows = {row["machine_name"] for row in (await world.ok("instance", "list", "--json")).json["instances"]}
    assert {machine["name"] for machine in await world.machines()} == rows
    assert (await world.ok("operation", "list", "--json")).json["operations"] == []
