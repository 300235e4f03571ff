"""An image rollout on real machines whose first new machine never answers: it halts, and the agent stays as it was."""

import asyncio
import sqlite3
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from tests.support.images import another_image
from tests.support.real.commands.command import Command, local_world
from tests.support.worlds.agent_memory import ToldMemory

pytestmark = [pytest.mark.machines, pytest.mark.timeout(1800)]

USERS = ("ada", "bob")
MUTE = "hermes-mute"
QUICK = ("--soak", "1s", "--settle", "1s", "--vitals", "none", "--max-unavailable", "50%", "--action", "machine")
SHORT = ("--attempt-within", "150s", "--confirm-within", "20s", "--drain", "5s")
_SILENCED = """
mkdir -p /etc/systemd/system/justavps-daemon.service.d
cd /etc/systemd/system/justavps-daemon.service.d
printf '[Service]\\nExecStart=\\nExecStart=/bin/sleep infinity\\n' >mute.conf
"""
"""The vendor's daemon, by which each command reaches a machine, does nothing after the next boot."""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Command]:
    """Two agents that know something, and an image whose machines never answer."""
    async with local_world(tmp_path / "home", variables={"HERMESOPS_PREVIOUS_DAYS": "1"}) as command:
        for user in USERS:
            await command.ok("provision", user, "--plan", "light")
            await ToldMemory(command).teach(user, f"taught-{user}")
        await another_image.make(command, MUTE, script=_SILENCED)
        yield command


def machines(command: Command) -> dict[str, tuple[str, str]]:
    """The machine of each user, and the image that it booted."""
    query = """
    SELECT alias, machine_name, image_id FROM hermes_instances JOIN users ON users.id = user_id
    JOIN instance_details ON instance_id = hermes_instances.id
    """
    with closing(sqlite3.connect(command.home / "local" / "registry.db")) as registry:
        return {alias: (machine, image) for alias, machine, image in registry.execute(query)}


async def test_a_machine_that_does_not_come_back_halts_the_rollout_by_name_and_the_agent_keeps_its_memory(
    fleet: Command,
) -> None:
    before, known = machines(fleet), {machine["name"] for machine in await fleet.machines()}
    ran = await fleet.run("rollout", "start", MUTE, "--all", *QUICK, *SHORT, "--json", timeout_s=900)
    assert ran.exit_code == 8, ran
    assert ran.json["rollout"]["state"] == "halted"
    rollout: dict[str, Any] = (await fleet.ok("rollout", "status", "--json")).json
    [touched] = [target for target in rollout["targets"] if target["touched_at"]]
    [mute] = {machine["name"] for machine in await fleet.machines()} - known
    assert touched["state"] in {"timed_out", "failed"}, touched
    assert mute in touched["detail"], touched
    assert not touched["on_release"]
    assert machines(fleet) == before
    shown = await asyncio.gather(*(fleet.ok("instance", "show", user, "--json") for user in USERS))
    assert [ran.json["instance"]["gateway"] for ran in shown] == ["ok", "ok"]
    for user in USERS:
        assert await ToldMemory(fleet).recall(user) == (f"taught-{user}",)
