"""Tokens for models are rotated in stages: each agent answers with its new one before its old one ends."""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.model_tokens import asked_with, copied, dies

pytestmark = pytest.mark.turns(60)

QUICK = ("--all", "--soak", "1s", "--settle", "1s", "--vitals", "none", "--max-unavailable", "50%", "--reason", "test")
USERS = ("ada", "bob", "cyd")


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("rotation"), driver="sim") as command:
        for user in USERS:
            await command.ok("provision", user, "--plan", "light")
        yield command


async def generations(world: Command) -> dict[str, int]:
    rows: list[dict[str, Any]] = (await world.ok("token", "list", "--json")).json["tokens"]
    return {str(row["user"]): int(row["generation"]) for row in rows if row["purpose"] == "models"}


async def test_every_agent_gets_another_token_and_the_old_ones_end(world: Command) -> None:
    copies = {user: await copied(world, user) for user in USERS}
    before = await generations(world)
    done = await world.ok("token", "rotate", *QUICK, "--json")
    assert done.json["rollout"]["state"] == "done", done.stdout
    assert await generations(world) == {user: before[user] + 1 for user in USERS}
    for user, old in copies.items():
        await dies(world, old)
        new = await copied(world, user)
        assert (new == old, await asked_with(world, new)) == (False, 200)
    listed = (await world.ok("rollout", "list", "--all", "--json")).json["rollouts"]
    assert listed[0]["release"].startswith("tokens-")
    assert (await world.ok("fleet", "outdated", "--json")).json["outdated"] == []


async def test_an_agent_that_is_not_reached_keeps_its_token_and_is_rotated_later(world: Command) -> None:
    old, before = await copied(world, "bob"), await generations(world)
    await world.ok("instance", "suspend", "bob", "--reason", "test")
    await world.ok("token", "rotate", "--where", "user=ada", *QUICK[1:])
    assert await generations(world) == before | {"ada": before["ada"] + 1, "bob": before["bob"] + 1}
    await dies(world, old)
    await world.ok("instance", "resume", "bob", "--reason", "test")
    assert await asked_with(world, await copied(world, "bob")) == 200


async def test_what_agents_used_is_shown(world: Command) -> None:
    await world.ok("instance", "chat", "cyd", "hello canary", "--reason", "test")
    shown = (await world.ok("fleet", "usage", "cyd", "--by", "model", "--json")).json["usage"]
    assert [row["name"] for row in shown] == ["claude-haiku"]
    assert shown[0]["answers"] >= 1
    assert float(shown[0]["usd"]) > 0
    everybody = (await world.ok("fleet", "usage", "--json")).json["usage"]
    assert {row["name"] for row in everybody} >= {"cyd", "total"}
    refused = await world.run("fleet", "usage", "--by", "colour")
    assert refused.exit_code == 2


async def test_the_job_tells_routers_the_budgets_of_settings(world: Command) -> None:
    tight = world.with_variables(HERMESOPS_MODEL_USD_PER_MONTH="light=0,heavy=1")
    await tight.ok("job", "run", "model-budgets")
    token = await copied(world, "cyd")
    await dies_of_budget(world, token)
    await world.ok("job", "run", "model-budgets")


async def dies_of_budget(world: Command, token: str) -> None:
    async def check() -> bool | Pending[bool]:
        status = await asked_with(world, token)
        return True if status == 429 else Pending(str(status))

    await until(check, what="429 of the router", timeout_s=10, every_s=0.3)
