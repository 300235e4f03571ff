"""The registry is lost with its copies; real machines: every agent is backed up and restored after it, memory whole.

The rebuild and a restore are killed on the way, and given again.
"""

from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.test_registry_loss import lose
from tests.support.real.commands.command import Command, local_world

pytestmark = [pytest.mark.machines, pytest.mark.turns(150)]

USERS = ("ada", "bob")


@pytest.fixture(scope="module")
async def own(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("home")) as command:
        yield command


async def test_a_lost_registry_costs_no_agent_its_backups_or_its_memory(own: Command) -> None:
    for user in USERS:
        await own.ok("provision", user, "--plan", "light")
        await own.ok("instance", "chat", user, f"I am {user}, and like tea", "--reason", "t")
        await own.ok("backup", "create", user)
    kept = {user: (await _backups(own, user))[0] for user in USERS}
    await own.ok("instance", "chat", "ada", "said after the backup", "--reason", "t")
    lose(own.home / "local")

    rebuild = ("registry", "rebuild", "--yes", "--reason", "lost")
    await own.killed_at("asking 2 machines", *rebuild)
    await own.killed_at("reading recovery records", *rebuild)
    rebuilt = (await own.ok(*rebuild, "--json")).json
    assert (rebuilt["left"], rebuilt["written"]) == ([], len(USERS))
    await own.ok("registry", "check")
    await own.ok("audit", "verify")
    await own.ok("identity", "renew", "--all")

    for user in USERS:
        assert (await _backups(own, user))[0] == kept[user]
        await own.ok("backup", "create", user)
        newest, *_ = await _backups(own, user)
        messages = 4 if user == "ada" else 2
        assert newest["state"]["messages"]["count"] == messages, "what was told after the backup is there, too"
        assert (await own.ok("backup", "check", user, "--json")).json["checked"]["proved"]
    restore = ("backup", "restore", "ada", "--snapshot", kept["ada"]["backup"], "--reason", "t", "--yes")
    await own.killed_after(6, *restore)
    await own.ok(*restore)
    await own.ok("backup", "create", "ada")
    newest, *_ = await _backups(own, "ada")
    assert newest["state"] == kept["ada"]["state"]
    assert (await own.ok("instance", "chat", "ada", "hello", "--reason", "t")).stdout.strip()
    assert (await own.ok("fleet", "drift", "--json")).json["findings"] == []


async def _backups(own: Command, user: str) -> list[dict[str, Any]]:
    return list((await own.ok("backup", "list", user, "--json")).json["backups"])
