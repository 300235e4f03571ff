"""A copied model token is dead after whatever takes an agent from its machine, wherever that is killed."""

import asyncio
import os
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.model_tokens import asked_with, copied, dies, world_pid

WHY = ("--reason", "test")
KEPT = {"HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_LAST_BACKUP": "required"}

ENDS: Mapping[str, tuple[str, ...]] = {
    "suspend": ("instance", "suspend", "{user}", *WHY),
    "suspend, machine removed": ("instance", "suspend", "{user}", "--machine", "removed", *WHY),
    "terminate with grace": ("instance", "terminate", "{user}", "--yes", *WHY),
    "terminate now": ("instance", "terminate", "{user}", "--now", "--yes", *WHY),
    "move": ("instance", "move", "{user}", "--region", "nbg1", *WHY),
    "restore": ("backup", "restore", "{user}", "--yes", *WHY),
    "restore onto a new machine": ("backup", "restore", "{user}", "--onto-new-machine", "--yes", *WHY),
    "token revoke": ("token", "revoke", "{user}", "--models", *WHY),
}
LIVES_ON = {"move", "restore", "restore onto a new machine", "token revoke"}
STEPS: Mapping[str, tuple[str, ...]] = {
    "suspend": ("stopping the gateway", "switching machine", "the agent is suspended"),
    "terminate now": ("stopping the gateway", "giving"),
    "move": ("changing ", "starting the gateway"),
    "restore": ("is in place", "starting the gateway"),
}


@pytest.fixture(scope="module")
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("tokens"), driver="sim") as command:
        yield command.with_variables(**KEPT)


async def provisioned(world: Command) -> str:
    user = f"u{uuid.uuid4().hex[:8]}"
    await world.ok("provision", user, "--plan", "light")
    return user


def command(what: str, user: str) -> tuple[str, ...]:
    return tuple(word.format(user=user) for word in ENDS[what])


async def model_row(world: Command, user: str) -> dict[str, Any]:
    rows = (await world.ok("token", "list", user, "--json")).json["tokens"]
    [row] = [row for row in rows if row["purpose"] == "models"]
    return dict(row)


@pytest.mark.turns(8, each=True)
@pytest.mark.parametrize("what", ENDS)
async def test_a_copied_token_is_dead_after(simulated: Command, what: str) -> None:
    user = await provisioned(simulated)
    copy, before = await copied(simulated, user), await model_row(simulated, user)
    assert await asked_with(simulated, copy) == 200
    assert before["generation"] == 1
    assert before["handed_at"]
    if what.startswith("restore"):
        await simulated.ok("backup", "create", user)
    await simulated.ok(*command(what, user))
    await dies(simulated, copy)
    if what in LIVES_ON:
        after = await model_row(simulated, user)
        assert after["generation"] > before["generation"]
        assert after["handed_at"]
        assert (await simulated.ok("instance", "chat", user, "hello", *WHY)).stdout
        new = await copied(simulated, user)
        assert (new == copy, await asked_with(simulated, new)) == (False, 200)
    assert await asked_with(simulated, copy) == 401


async def test_a_woken_agent_has_a_token_that_nobody_had_before(simulated: Command) -> None:
    user = await provisioned(simulated)
    copy = await copied(simulated, user)
    await simulated.ok("instance", "suspend", user, *WHY)
    # For an agent that is suspended too: what it will be handed is a later one again.
    revoked = await simulated.ok("token", "revoke", user, "--models", "--json", *WHY)
    assert revoked.json["models_from_generation"] == 3
    assert (await model_row(simulated, user))["left"] == "none since it was revoked"
    await simulated.ok("instance", "resume", user, *WHY)
    assert (await simulated.ok("instance", "chat", user, "hello", *WHY)).stdout
    new = await copied(simulated, user)
    await dies(simulated, copy)
    assert await asked_with(simulated, new) == 200
    entries = (await simulated.ok("audit", "log", "--json")).json["entries"]
    assert [entry["why"] for entry in entries if entry["action"] == "model_tokens_revoked"][:1] == ["test"]


@pytest.mark.turns(4, each=True)
@pytest.mark.parametrize(("what", "line"), [(what, line) for what, lines in STEPS.items() for line in lines])
async def test_killed_at_a_step_the_same_command_revokes_before_its_row_says_so(
    simulated: Command, what: str, line: str
) -> None:
    user = await provisioned(simulated)
    copy = await copied(simulated, user)
    if what == "restore":
        await simulated.ok("backup", "create", user)
    began = await _row(simulated, user)
    await simulated.killed_at(line, *command(what, user))
    row = await _row(simulated, user)
    if (row["status"], row["machine_name"]) != (began["status"], began["machine_name"]):
        await dies(simulated, copy)
    await simulated.ok(*command(what, user))
    await dies(simulated, copy)


async def test_killed_after_the_revocation_the_agent_is_due_for_another_token(simulated: Command) -> None:
    user = await provisioned(simulated)
    copy = await copied(simulated, user)
    for seconds in (0.3, 0.6, 0.9, 1.2):
        await simulated.killed_after(seconds, "token", "revoke", user, "--models", *WHY)
    await simulated.run("job", "run", "model-tokens")
    await simulated.ok("token", "revoke", user, "--models", *WHY)
    await dies(simulated, copy)
    assert (await simulated.ok("instance", "chat", user, "hello", *WHY)).stdout


async def test_a_router_that_was_down_knows_of_the_revocation_from_its_first_answer(simulated: Command) -> None:
    user = await provisioned(simulated)
    copy = await copied(simulated, user)
    os.kill(world_pid(simulated), signal.SIGKILL)

    async def is_down() -> bool | Pending[bool]:
        return True if await asked_with(simulated, copy) == 0 else Pending("it answers")

    await until(is_down, what="the server's end", timeout_s=10, every_s=0.1)
    # Nobody reaches the machine either: the token is dead, and the command says that the agent has no other yet.
    revoked = await simulated.run("token", "revoke", user, "--models", *WHY)
    assert revoked.exit_code == 6, str(revoked)
    assert "has no new model token yet" in revoked.stderr
    await simulated.ok("local", "up")
    assert await asked_with(simulated, copy) in {401, 503}
    await dies(simulated, copy)
    await simulated.ok("job", "run", "model-tokens")
    assert (await simulated.ok("instance", "chat", user, "hello", *WHY)).stdout


@pytest.mark.turns(35)
async def test_a_token_that_runs_out_is_renewed_before_it_does_while_the_agent_runs(simulated: Command) -> None:
    short = simulated.with_variables(HERMESOPS_MODEL_TOKEN_DAYS=str(30 / 86400))
    user = f"u{uuid.uuid4().hex[:8]}"
    await short.ok("provision", user, "--plan", "light")
    copy = await copied(short, user)
    assert await asked_with(short, copy) == 200

    async def is_due() -> bool | Pending[bool]:
        rows = {row["job"]: row["due"] for row in (await short.ok("job", "list", "--json")).json["jobs"]}
        return True if rows["model-tokens"] else Pending("not yet")

    await until(is_due, what="the token to be due", timeout_s=30, every_s=1)
    await short.ok("job", "run", "model-tokens")
    new = await copied(short, user)
    assert (new == copy, await asked_with(short, new)) == (False, 200)

    async def ran_out() -> bool | Pending[bool]:
        return True if await asked_with(short, copy) == 401 else Pending("it counts")

    await until(ran_out, what="the first token to run out", timeout_s=40, every_s=0.5)


@pytest.mark.turns(90)
@pytest.mark.machines
async def test_a_running_agent_answers_over_a_renewal_and_a_revocation_without_a_restart(world: Command) -> None:
    user = await provisioned(world)
    copies = [await copied(world, user)]
    started = await _gateway(world, user)

    async def answers(text: str = "hello") -> str:
        return str((await world.ok("instance", "chat", user, text, *WHY, "--json")).json["answer"])

    assert "hello" in await answers()
    # A turn that is under way is not cut short by the renewal, which is due at once where tokens shall live longer.
    turn = asyncio.create_task(answers("SLEEP 20"))
    longer = world.with_variables(HERMESOPS_MODEL_TOKEN_DAYS="30")
    await longer.ok("job", "run", "model-tokens")
    copies.append(await copied(world, user))
    assert "SLEPT" in await turn
    assert "hello" in await answers()
    assert [await asked_with(world, token) for token in copies] == [200, 200]

    # From here on the tokens before are refused: what answers has read the one that it was handed.
    await world.ok("token", "revoke", user, "--models", *WHY)
    copies.append(await copied(world, user))
    for token in copies[:2]:
        await dies(world, token)
    assert "hello" in await answers()
    assert "proof-42" in await answers("RUN: echo proof-$((6*7))")
    assert len(set(copies)) == 3
    assert await _gateway(world, user) == started
    await world.ok("instance", "terminate", user, "--yes", *WHY)
    await dies(world, copies[2])


async def _gateway(world: Command, user: str) -> str:
    """Process and invocation of the gateway's present start."""
    show = "systemctl show -p MainPID -p InvocationID -p NRestarts hermes-gateway"
    return (await world.ok("instance", "exec", user, *WHY, "--", show)).stdout


async def _row(world: Command, user: str) -> dict[str, Any]:
    return dict((await world.ok("instance", "show", user, "--json")).json["instance"])
