"""On real machines: an edited file and a reboot are found and repaired, and a lost registry is made anew."""

import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.e2e.test_registry_loss import lose
from tests.support.real.commands.command import Command
from tests.support.worlds.local.kept import kept_or_new_world

pytestmark = pytest.mark.machines

PRESET = "/etc/systemd/system-preset/10-hermes-gateway.preset"


@pytest.fixture
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("home")) as command:
        yield command


async def test_an_edited_file_is_named_and_repaired_and_a_lost_registry_rebuilt(world: Command) -> None:
    users = [f"u{uuid.uuid4().hex[:8]}" for _ in range(2)]
    for user in users:
        await world.ok("provision", user, "--plan", "light")
    edited = users[0]
    await world.ok("fleet", "converge", edited)  # a kept world's image may be of older roles
    assert await deep(world, edited) == {}
    await world.ok("instance", "exec", edited, "--reason", "t", "--", f"echo 'disable *' >> {PRESET}")
    findings = await deep(world, edited)
    assert set(findings) == {"files-changed"}, findings
    assert "Write the systemd preset" in findings["files-changed"]["seen"]
    [command] = findings["files-changed"]["repair"]
    assert command == f"hermesops fleet converge {edited}"
    await world.ok(*command.split()[1:])
    assert await deep(world, edited) == {}

    lose(world.home / "local")
    aliases = [word for user in users for word in ("--alias", user)]
    assert (await world.ok("registry", "rebuild", *aliases, "--yes", "--json")).json["written"] == len(users)
    assert (await world.ok("fleet", "drift", "--json")).json["findings"] == []
    for user in users:
        assert "handing" not in (await world.ok("provision", user, "--plan", "light")).stderr
        await world.ok("instance", "chat", user, "hello", "--reason", "t")
        await world.ok("instance", "terminate", user, "--yes", "--reason", "t")


async def deep(world: Command, user: str) -> dict[str, dict[str, Any]]:
    """What differs on one user's machine, by kind."""
    ran = await world.ok("fleet", "drift", "--deep", "--where", f"user={user}", "--json")
    return {finding["kind"]: finding for finding in ran.json["findings"]}
