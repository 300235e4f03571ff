"""A user's life on a real machine: from nothing to an agent that answers, and gone without a trace."""

import asyncio
import uuid
from collections.abc import AsyncIterator

import httpx
import pytest

from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.local.traces import traces

pytestmark = pytest.mark.machines

MAIN_PID = "systemctl show -p MainPID --value hermes-gateway"
WHO = "RUN: echo proof-$((6*7))-$(id -un)-$(hostname)"


def name() -> str:
    return f"u{uuid.uuid4().hex[:8]}"


@pytest.fixture(scope="module")
async def agent(world: Command) -> AsyncIterator[str]:
    """A user whose agent runs, for tests that leave it running."""
    user = name()
    await world.ok("provision", user, "--plan", "light")
    yield user
    await world.ok("instance", "terminate", user, "--yes")


async def test_two_users_side_by_side_get_a_machine_each_and_everything_works(world: Command) -> None:
    users = [name() for _ in range(2)]
    runs = await asyncio.gather(*(world.run("provision", user, "--plan", "light", "--json") for user in users))
    assert [ran.exit_code for ran in runs] == [0, 0], "\n".join(map(str, runs))
    rows = [ran.json["instance"] for ran in runs]
    assert {row["status"] for row in rows} == {"running"}
    assert len({row["machine_id"] for row in rows}) == 2
    listed = {row["name"]: row for row in await world.machines()}
    for row, user in zip(rows, users, strict=True):
        ran = await world.ok("instance", "chat", user, WHO, "--reason", "test", "--json")
        slug = listed[row["machine_name"]]["slug"]
        assert f"proof-42-hermes-{slug}" in ran.json["answer"], str(ran)
    checks = await asyncio.gather(*(world.run("instance", "verify", user, "--json") for user in users))
    assert [ran.exit_code for ran in checks] == [0, 0], "\n".join(map(str, checks))
    assert (await world.run("stack", "preview", rows[0]["cell"], "--exit-code")).exit_code == 0
    for user in users:
        await world.ok("instance", "terminate", user, "--yes", "--reason", "test")
    left = {row["name"] for row in await world.machines()}
    assert not left & set(listed)
    for user in users:
        assert (await world.run("instance", "chat", user, "hello", "--reason", "test")).exit_code in {3, 4}


async def test_what_an_operator_does_with_an_agent(world: Command, agent: str) -> None:
    user = agent
    again = await world.ok("provision", user, "--plan", "light")
    assert again.stderr == "", "the second time there was something to do"

    shown = (await world.ok("instance", "show", user, "--json")).json["instance"]
    assert (shown["gateway"], shown["machine_status"]) == ("ok", "ready")
    assert shown["release"]

    session = f"s-{uuid.uuid4().hex[:8]}"
    for _ in range(2):
        ran = await world.ok("instance", "chat", user, "hello", "--reason", "test", "--session", session)
        assert ran.stdout.strip()

    done = await world.run("instance", "exec", user, "--reason", "test", "--", "printf 'a\\0b' ; exit 7")
    assert (done.exit_code, done.stdout) == (7, "a\0b")
    assert (
        "hermes" in (await world.ok("instance", "exec", user, "--user", "hermes", "--reason", "t", "--", "id")).stdout
    )

    before = (await world.ok("instance", "exec", user, "--reason", "t", "--", MAIN_PID)).stdout
    await world.ok("instance", "restart", user)
    after = (await world.ok("instance", "exec", user, "--reason", "t", "--", MAIN_PID)).stdout
    assert before != after

    assert "Hermes Agent gateway" in (await world.ok("instance", "logs", user)).stdout
    assert user in (await world.ok("instance", "list")).stdout
    deployment = (await world.ok("stack", "export", shown["cell"])).json["deployment"]
    assert any(r["urn"].endswith(shown["machine_name"]) and r["protect"] for r in deployment["resources"])
    assert shown["machine_name"] in (await world.ok("stack", "outputs", shown["cell"], "--json")).stdout


async def test_a_touch_without_a_reason_is_refused(world: Command, agent: str) -> None:
    for what in (["chat", agent, "hello"], ["exec", agent, "--", "id"], ["shell", agent]):
        ran = await world.run("instance", *what)
        assert ran.exit_code == 2, str(ran)
        assert "say why" in ran.stderr


async def test_a_shell_remembers_its_folder(world: Command, agent: str) -> None:
    ran = await world.run("instance", "shell", agent, "--reason", "test", typed="cd /var/lib\npwd\nfalse\n")
    assert (ran.exit_code, ran.stdout.strip()) == (1, "/var/lib"), str(ran)


async def test_an_unchanged_image_is_not_built_again(world: Command) -> None:
    ran = await world.ok("image", "build", "--json")
    assert ran.json["image"]["made"] is False
    assert ran.json["image"]["id"] in (await world.ok("image", "list")).stdout


@pytest.mark.turns(15, each=True)
@pytest.mark.parametrize(
    "line",
    ["creating machine", "recording machine", "assigning the machine", "the agent is running"],
)
async def test_killed_at_a_step_the_same_command_finishes_it(world: Command, line: str) -> None:
    user = name()
    await world.killed_at(line, "provision", user, "--plan", "light")
    # What holds the dead process's lease lets go fifteen seconds after its last renewal.
    ran = await _until_free(world, "provision", user, "--plan", "light")
    assert ran == 0
    row = (await world.ok("instance", "show", user, "--json")).json["instance"]
    assert (row["status"], row["gateway"]) == ("running", "ok")
    assert [m["name"] for m in await world.machines()].count(row["machine_name"]) == 1
    listed = (await world.ok("instance", "list", "--json")).json["instances"]
    assert [r["user"] for r in listed].count(user) == 1
    await world.ok("instance", "terminate", user, "--yes")


@pytest.mark.turns(15, each=True)
@pytest.mark.parametrize(
    "fault",
    [
        ["create-5xx-but-created"],
        ["lost-answer", "--method", "POST", "--path", "/machines"],
        ["not-found-for-a-while"],
        ["ready-before-bootstrapped"],
    ],
    ids=lambda fault: fault[0],
)
async def test_the_vendors_faults_end_in_one_machine(world: Command, fault: list[str]) -> None:
    user = name()
    await world.ok("local", "fault", "set", *fault)
    try:
        ran = await world.run("provision", user, "--plan", "light")
        if ran.exit_code in {4, 5}:
            ran = await world.run("provision", user, "--plan", "light")
        assert ran.exit_code == 0, str(ran)
    finally:
        await world.ok("local", "fault", "clear")
    row = (await world.ok("instance", "show", user, "--json")).json["instance"]
    assert [m["name"] for m in await world.machines()].count(row["machine_name"]) == 1
    assert (row["status"], row["gateway"]) == ("running", "ok")
    await world.ok("instance", "terminate", user, "--yes")


@pytest.mark.turns(20)
async def test_a_machine_that_vanished_is_not_replaced_in_silence(world: Command) -> None:
    user = name()
    await world.ok("provision", user, "--plan", "light")
    row = (await world.ok("instance", "show", user, "--json")).json["instance"]
    await _vendor_deletes(world, row["machine_id"])
    ran = await world.run("provision", user, "--plan", "light")
    assert ran.exit_code == 3, str(ran)
    assert "is gone at JustAVPS" in ran.stderr
    await world.ok("instance", "terminate", user, "--yes")
    await world.ok("provision", user, "--plan", "light")
    await world.ok("instance", "terminate", user, "--yes")


@pytest.mark.turns(15)
async def test_machines_survive_the_worlds_server(world: Command) -> None:
    user = name()
    await world.ok("provision", user, "--plan", "light")
    status = (await world.ok("local", "status", "--json")).json
    boot = (
        await world.ok("instance", "exec", user, "--reason", "t", "--", "cat /proc/sys/kernel/random/boot_id")
    ).stdout
    killed = await asyncio.create_subprocess_exec("kill", "-9", str(status["pid"]))
    assert await killed.wait() == 0
    shown = await world.ok("instance", "show", user)
    assert "not reachable" in shown.stdout
    await world.ok("local", "up")
    again = (
        await world.ok("instance", "exec", user, "--reason", "t", "--", "cat /proc/sys/kernel/random/boot_id")
    ).stdout
    assert boot == again
    await world.ok("instance", "terminate", user, "--yes")


async def test_a_purged_world_leaves_nothing(tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("purged")
    async with local_world(home, image=False) as command:
        await command.ok("local", "up")
        state = home / "local" / "world"
        assert traces(state), "the search finds nothing even while the world is up"
        await command.ok("local", "down")
        await command.ok("local", "up")
    assert not state.exists() or not list(state.rglob("*"))
    assert (await command.ok("local", "down", "--purge", "--yes")).exit_code == 0


async def _until_free(world: Command, *arguments: str) -> int:
    for _ in range(40):
        ran = await world.run(*arguments)
        if ran.exit_code != 3:
            return ran.exit_code
        await asyncio.sleep(0.5)  # noqa: TID251 - a test waits for a lease to expire
    return 3


async def _vendor_deletes(world: Command, machine_id: str) -> None:
    status = (await world.ok("local", "status", "--json")).json
    key = (world.home / "local" / "world" / "api.key").read_text().strip()
    async with httpx.AsyncClient(headers={"Authorization": f"Bearer {key}"}, trust_env=False) as vendor:
        answer = await vendor.delete(f"{status['api_url']}/api/v1/machines/{machine_id}", timeout=30)
    assert answer.status_code == 204
