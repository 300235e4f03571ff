"""An agent keeps what it was told through everything that happens to it, and refusals say why; by commands."""

import asyncio
import json
import signal
import uuid
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.real.commands.command import Command, Ran, local_world

MEMORY = "/var/lib/hermes/memories/MEMORY.md"
LIVES = {"HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_LAST_BACKUP": "required"}
ASKED = ("--reason", "test")


@pytest.fixture(scope="module")
async def simulated(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """A world without machines of its own, for what is decided outside of them."""
    async with local_world(tmp_path_factory.mktemp("lives"), driver="sim") as command:
        yield command


@pytest.mark.turns(200)
@pytest.mark.machines
async def test_what_an_agent_was_told_survives_sleep_growth_moves_loss_and_a_revoked_end(world: Command) -> None:
    user, text = f"u{uuid.uuid4().hex[:8]}", f"told-{uuid.uuid4().hex}"
    lives = world.with_variables(**LIVES)

    async def chat(question: str) -> str:
        return str((await lives.ok("instance", "chat", user, question, "--session", f"s-{user}", *ASKED)).stdout)

    async def remembers() -> bool:
        return text in await chat(f"RUN: cat {MEMORY}")

    await lives.ok("provision", user, "--plan", "light")
    await chat(f"RUN: mkdir -p $(dirname {MEMORY}) && echo {text} >> {MEMORY}")
    await lives.ok("instance", "suspend", user, *ASKED)
    await lives.ok("instance", "resume", user, *ASKED)
    assert await remembers()
    await lives.ok("instance", "resize", user, "--plan", "heavy", *ASKED)
    assert await remembers()
    first = await _row(lives, user)
    await lives.ok("instance", "move", user, "--region", "nbg1", *ASKED)
    moved = await _row(lives, user)
    assert (moved["cell"], moved["plan"]) != (first["cell"], "light")
    assert first["machine_name"] not in [machine["name"] for machine in await lives.machines()]
    assert await remembers()

    backup_create = (await lives.ok("backup", "create", user, "--json")).json["made"]
    assert backup_create["state"]["sessions"]["count"] == 1
    await _destroy_behind_its_back(lives, moved["machine_id"])
    await lives.ok("backup", "restore", user, "--onto-new-machine", "--yes", *ASKED)
    assert await remembers()
    assert (await _row(lives, user))["machine_name"] != moved["machine_name"]

    await lives.ok("instance", "terminate", user, "--yes", *ASKED)
    assert (await lives.run("instance", "chat", user, "hello", *ASKED)).exit_code != 0
    await lives.ok("instance", "terminate", user, "--undo", *ASKED)
    assert await remembers()
    await lives.ok("instance", "terminate", user, "--now", "--yes", *ASKED)
    assert (await _row(lives, user))["status"] == "terminated"

    await lives.ok("audit", "log", "--json")
    await lives.ok("backup", "list", user, "--json")
    await lives.ok("operation", "list", "--all", "--json")
    runs = [ran for ran in world.said if ran.arguments[1] != "chat"]
    assert [str(ran) for ran in runs if text in f"{ran.stdout}{ran.stderr}"] == []
    assert _files_with(world.home, text) == []


@pytest.mark.turns(10)
async def test_who_sleeps_is_left_alone_until_woken_on_whatever_machine(simulated: Command) -> None:
    await simulated.ok("provision", "ada", "--plan", "light")
    first = await _row(simulated, "ada")
    assert (
        await simulated.ok("instance", "resume", "ada", *ASKED)
    ).stdout == "nothing to do: the agent of ada is running\n"
    refused(await simulated.run("instance", "suspend", "ada"), 2, "say why")
    refused(await simulated.run("instance", "suspend", "ada", "--machine", "sold", *ASKED), 2, "stopped, removed")

    await simulated.ok("instance", "suspend", "ada", *ASKED)
    await _undrifted(simulated)
    for words in (
        ("provision", "ada", "--plan", "light"),
        ("instance", "resize", "ada", "--plan", "heavy", *ASKED),
        ("instance", "move", "ada", "--region", "nbg1", *ASKED),
    ):
        refused(await simulated.run(*words), 3, "is suspended", "hermesops instance resume ada")
    await simulated.ok("instance", "suspend", "ada", "--machine", "removed", *ASKED)
    assert await simulated.machines() == []
    await _undrifted(simulated)
    again = await simulated.ok("instance", "suspend", "ada", "--machine", "removed", *ASKED)
    assert again.stderr == "", "the second time there was something to do"

    await simulated.ok("instance", "resume", "ada", *ASKED)
    await _undrifted(simulated)
    woken = await _row(simulated, "ada")
    assert (woken["status"], woken["machine_name"] != first["machine_name"]) == ("running", True)
    assert [machine["name"] for machine in await simulated.machines()] == [woken["machine_name"]]


@pytest.mark.turns(10)
async def test_who_grows_and_moves_is_where_the_rows_say(simulated: Command) -> None:
    await simulated.ok("provision", "bob", "--plan", "light")
    assert (
        "has plan light already" in (await simulated.ok("instance", "resize", "bob", "--plan", "light", *ASKED)).stdout
    )
    refused(await simulated.run("instance", "resize", "bob", "--plan", "huge", *ASKED), 2, "light, heavy")
    refused(await simulated.run("instance", "move", "bob", *ASKED), 2, "give either --cell CELL or --region REGION")
    assert "is in hel1 already" in (await simulated.ok("instance", "move", "bob", "--region", "hel1", *ASKED)).stdout
    refused(await simulated.run("instance", "move", "bob", "--region", "atlantis", *ASKED), 3, "sells no starter")
    refused(await simulated.run("instance", "move", "bob", "--cell", "nope", *ASKED), 2, "no cell 'nope'")

    await simulated.ok("instance", "resize", "bob", "--plan", "heavy", *ASKED)
    await _undrifted(simulated)
    await simulated.ok("instance", "move", "bob", "--region", "nbg1", *ASKED)
    await _undrifted(simulated)
    moved = await _row(simulated, "bob")
    assert (moved["plan"], moved["status"], moved["epoch"]) == ("heavy", "running", 2)
    assert [machine["name"] for machine in await simulated.machines()].count(moved["machine_name"]) == 1


@pytest.mark.turns(10)
async def test_the_same_restore_again_restores_the_same(simulated: Command) -> None:
    await simulated.ok("provision", "kim", "--plan", "light")
    backup = (await simulated.ok("backup", "create", "kim", "--json")).json["made"]["backup"]
    for place in ((), (), ("--onto-new-machine",), ("--onto-new-machine",)):
        restored = await simulated.ok("backup", "restore", "kim", *place, "--yes", "--json", *ASKED)
        assert restored.json["backup"] == backup
    listed = (await simulated.ok("backup", "list", "kim", "--json")).json["backups"]
    assert len(listed) == 5
    await simulated.ok("backup", "restore", "kim", "--yes", "--snapshot", backup, "--no-wait", *ASKED)
    another = await simulated.run("backup", "restore", "kim", "--yes", "--snapshot", listed[0]["backup"], *ASKED)
    refused(another, 3, "has not ended")
    restored = await simulated.ok("backup", "restore", "kim", "--yes", "--json", *ASKED)
    assert restored.json["backup"] == backup


@pytest.mark.turns(10)
async def test_nothing_starts_a_gateway_that_an_unfinished_change_has_stopped(simulated: Command) -> None:
    await simulated.ok("provision", "lea", "--plan", "light")
    await simulated.ok("backup", "create", "lea")
    await simulated.ok("instance", "move", "lea", "--region", "nbg1", "--no-wait", *ASKED)
    begun = [("backup", "restore", "lea", "--yes", *ASKED), ("snapshot", "create", "lea", *ASKED)]
    changed = ("instance", "settings", "lea", "--set", "personality=Brief.", *ASKED)
    for words in (*begun, ("instance", "restart", "lea"), changed):
        refused(await simulated.run(*words), 3, "(relocate) of lea has not ended", "hermesops operation continue")
    await simulated.ok("instance", "move", "lea", "--region", "nbg1", *ASKED)
    for words in begun:
        await simulated.ok(*words, "--no-wait")
        refused(await simulated.run("provision", "lea", "--plan", "light"), 3, "of lea has not ended")
        await simulated.ok(*words)
    await _undrifted(simulated)


@pytest.mark.turns(10)
async def test_an_end_is_had_back_within_its_days_and_done_after_them(simulated: Command) -> None:
    lives, hasty = (simulated.with_variables(**{**LIVES, "HERMESOPS_GRACE_DAYS": days}) for days in ("7", "0.00001"))
    await lives.ok("provision", "eve", "--plan", "light")
    assert "is running" in (await lives.ok("instance", "terminate", "eve", "--undo")).stdout
    refused(await lives.run("instance", "terminate", "eve", "--undo", "--now"), 2, "--undo goes alone")
    refused(await lives.run("instance", "terminate", "eve", "--without-backup", "--yes"), 2, "--now")
    refused(await lives.run("instance", "terminate", "eve"), 3, "not confirmed")

    await lives.ok("instance", "terminate", "eve", "--yes")
    assert (await lives.ok("job", "run", "lifecycle", "--json")).json["outcomes"] == []
    refused(await lives.run("provision", "eve", "--plan", "light"), 3, "instance terminate eve --undo")
    await _undrifted(lives)
    await lives.ok("instance", "terminate", "eve", "--undo")
    assert (await _row(lives, "eve"))["status"] == "running"

    await hasty.ok("snapshot", "create", "eve", *ASKED)
    await hasty.ok("instance", "terminate", "eve", "--yes")
    await _undrifted(hasty)
    refused(await hasty.run("job", "run", "lifecycle"), 3, "eve: its days of grace are over", "not confirmed")
    assert (await hasty.ok("job", "run", "lifecycle", "--yes", "--json")).json["outcomes"] == [
        {"subject": "eve", "operation_id": None, "outcome": "done", "problem": None}
    ]
    await _undrifted(hasty)
    refused(await hasty.run("instance", "terminate", "eve", "--undo"), 3, "was terminated")
    assert (await hasty.ok("job", "run", "lifecycle", "--json")).json["outcomes"] == []


async def test_two_at_once_for_one_user_make_one_machine(simulated: Command) -> None:
    both = await asyncio.gather(*(simulated.run("provision", "two", "--plan", "light") for _ in range(2)))
    assert sorted(ran.exit_code for ran in both) in ([0, 0], [0, 3]), "\n".join(map(str, both))
    row = await _row(simulated, "two")
    assert [m["name"] for m in await simulated.machines()].count(row["machine_name"]) == 1


async def test_ctrl_c_says_so_gives_the_lease_back_and_the_same_command_finishes(simulated: Command) -> None:
    words = ("provision", "con", "--plan", "light")
    assert await simulated.killed_at("assigning the machine", *words, by=signal.SIGINT) == 130
    lines = simulated.said[-1].stderr.splitlines()
    (operation,) = (await simulated.ok("operation", "list", "--json")).json["operations"]
    assert f"operation {operation['id']} (provision) stays open" in lines
    assert lines[-1] == "interrupted; the same command continues where it stopped"
    await simulated.ok(*words)
    refused(
        await simulated.run("provision", "con", "--plan", "heavy"),
        3,
        "already has an agent of plan light",
        "instance resize con",
    )


def refused(ran: Ran, exit_code: int, *words: str) -> None:
    """Check that a command ended so and said that."""
    assert ran.exit_code == exit_code, str(ran)
    assert [word for word in words if word not in ran.stderr] == [], str(ran)


async def _undrifted(world: Command) -> None:
    assert (await world.ok("fleet", "drift", "--json")).json["findings"] == []
    assert (await world.ok("operation", "list", "--json")).json["operations"] == []


async def _row(world: Command, user: str) -> Mapping[str, Any]:
    shown: Mapping[str, Any] = (await world.ok("instance", "show", user, "--json")).json["instance"]
    return shown


async def _destroy_behind_its_back(world: Command, machine_id: str) -> None:
    """Destroy a machine at the vendor, who tells nobody."""
    folder = world.home / "local" / "world"
    url = json.loads((folder / "world.json").read_text())["api_url"]
    headers = {"Authorization": f"Bearer {(folder / 'api.key').read_text().strip()}"}
    async with httpx.AsyncClient(headers=headers, trust_env=False, timeout=60) as vendor:
        (await vendor.delete(f"{url}/api/v1/machines/{machine_id}")).raise_for_status()


def _files_with(home: Path, text: str) -> list[Path]:
    """Files outside of machines and images in which it stands."""
    own = {"machines", "images"}
    files = [path for path in home.rglob("*") if not own & set(path.parts) and path.is_file() and not path.is_symlink()]
    return [path for path in files if text.encode() in path.read_bytes()]
