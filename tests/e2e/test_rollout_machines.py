"""Agents of a simulated fleet brought onto machines of another image by the installed command, and back."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from typing import Any

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.images import another_image
from tests.support.real.commands.command import Command, local_world
from tests.support.vendor.outside_changes import vendor_of

USERS = 6
NEXT = "hermes-next"
QUICK = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--max-unavailable", "50%", "--action", "machine")


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """Agents on simulated machines, and another image that machines can boot."""
    home = tmp_path_factory.mktemp("moves")
    async with local_world(home, driver="sim") as command:
        wishes = home / "users.csv"
        wishes.write_text("user,plan,region\n" + "".join(f"user-{number},light,\n" for number in range(USERS)))
        await command.ok("provision", "--from", str(wishes))
        await another_image.make(command, NEXT)
        yield command


def images(command: Command) -> dict[str, str]:
    """What the machine of each user boots from."""
    query = """
    SELECT alias, image_id FROM hermes_instances JOIN users ON users.id = user_id
    JOIN instance_details ON instance_id = hermes_instances.id
    """
    with closing(sqlite3.connect(command.home / "local" / "registry.db")) as registry:
        return dict(registry.execute(query).fetchall())


async def lives(command: Command, user: str) -> bool:
    """Whether a user's agent answers."""
    return bool((await command.ok("instance", "show", user, "--json")).json["instance"]["gateway"] == "ok")


async def status(command: Command) -> dict[str, Any]:
    rollout_status: dict[str, Any] = (await command.ok("rollout", "status", "--json")).json
    return rollout_status


async def test_an_image_that_nobody_boots_halts_at_its_first_canary_and_nobody_was_touched(fleet: Command) -> None:
    another_image.know(fleet, "hermes-gone", "img_gone")
    before = images(fleet)
    ran = await fleet.run("rollout", "start", "hermes-gone", "--all", *QUICK, "--json")
    assert ran.exit_code == 8, ran
    assert (ran.json["progress"]["touched"], ran.json["progress"]["failed"]) == (0, 1)
    assert images(fleet) == before
    await fleet.ok("rollout", "abort", "--reason", "gone")


@pytest.mark.turns(15)
async def test_one_that_does_not_live_on_its_new_machine_is_brought_back(fleet: Command) -> None:
    before, had = images(fleet), {machine["name"] for machine in await fleet.machines()}
    hasty = fleet.with_variables(HERMESOPS_GATEWAY_TIMEOUT_S="3")
    process = await hasty.start("rollout", "start", NEXT, "--all", *QUICK)

    async def ordered() -> str | Pending[str]:
        new = {machine["name"] for machine in await fleet.machines()} - had
        return next(iter(new)) if new else Pending("none")

    name = await until(ordered, what="the new machine", timeout_s=60, every_s=0.2)
    async with vendor_of(fleet.home / "local" / "world", "") as api:
        order = {"kind": "proxy-unauthorised", "times": 100_000, "machine": name}
        (await api.post("/local/faults", json=order)).raise_for_status()
        await asyncio.wait_for(process.communicate(), 120)
        (await api.delete("/local/faults")).raise_for_status()
    assert process.returncode == 8
    rollout = await status(fleet)
    [hurt] = [target for target in rollout["targets"] if target["touched_at"]]
    assert (hurt["state"], hurt["on_release"]) == ("failed", False), hurt
    assert "on its new machine" in hurt["detail"]
    assert images(fleet) == before
    assert await lives(fleet, hurt["user"])
    await fleet.ok("rollout", "abort", "--reason", "enough")


@pytest.mark.turns(40)
async def test_everybody_comes_to_machines_of_the_image_though_the_runner_is_killed_and_all_come_back(
    fleet: Command,
) -> None:
    before = images(fleet)
    ahead = (await fleet.ok("rollout", "preview", NEXT, "--all", "--action", "machine", "--json")).json["preview"]
    process = await fleet.start("rollout", "start", NEXT, "--all", *QUICK)

    async def under_way() -> bool | Pending[bool]:
        ran = await fleet.run("rollout", "status", "--json")
        targets = ran.json["targets"] if ran.exit_code == 0 else []
        return any(target["touched_at"] for target in targets) or Pending("nobody")

    await until(under_way, what="the first that moves", timeout_s=120, every_s=0.3)
    process.kill()
    await asyncio.wait_for(process.communicate(), 60)
    await fleet.ok("rollout", "start", NEXT, "--all", *QUICK)
    rollout = await status(fleet)
    assert (rollout["rollout"]["state"], rollout["progress"]["reached"]) == ("done", USERS), rollout
    assert rollout["rollout"]["release"] == ahead["release"]
    assert set(images(fleet).values()) == {ahead["release"]}
    assert (await fleet.ok("fleet", "outdated")).stdout == "no instance is outdated\n"
    findings = (await fleet.ok("fleet", "drift", "--json")).json["findings"]
    assert {finding["subject"] for finding in findings} <= {"hermes-gone"}, findings
    back = await fleet.ok("rollback", "--rollout", rollout["rollout"]["id"], "--yes", "--json")
    assert back.json["rollout"]["state"] == "rolled_back"
    assert images(fleet) == before
    for row in (await fleet.ok("instance", "list", "--json")).json["instances"]:
        assert await lives(fleet, row["user"])
