"""What an agent was told survives in the object store, and comes back; all of it by commands, on a real machine."""

import uuid

import pytest

from tests.support.real.commands.command import Command

pytestmark = [pytest.mark.machines, pytest.mark.turns(65)]

SAID = "a sentence that only the machine may hold"


async def test_an_agent_is_backed_up_proved_and_put_back(world: Command) -> None:
    user = f"u{uuid.uuid4().hex[:8]}"
    await world.ok("provision", user, "--plan", "light")
    await world.ok("instance", "chat", user, SAID, "--reason", "test")
    backup_create = (await world.ok("backup", "create", user, "--json")).json["made"]
    assert backup_create["state"]["messages"]["count"] == 2
    assert (await world.ok("backup", "check", user, "--json")).json["checked"]["proved"]

    await world.ok("instance", "chat", user, "and another", "--reason", "test")
    restored = await world.ok(
        "backup", "restore", user, "--snapshot", backup_create["backup"][:12], "--reason", "test", "--yes", "--json"
    )
    assert restored.json["backup"] == backup_create["backup"]
    again = (await world.ok("backup", "create", user, "--json")).json["made"]
    assert again["state"]["messages"] == backup_create["state"]["messages"]
    assert (await world.ok("instance", "chat", user, "hello", "--reason", "test")).stdout.strip()

    listed = await world.ok("backup", "list", user, "--json")
    assert [backup["why"].split()[0] for backup in listed.json["backups"]] == ["manual", "before", "manual"]
    ages = await world.ok("backup", "list", "--json")
    assert next(instance["age_s"] for instance in ages.json["instances"] if instance["user"] == user) < 3600

    kept = world.home / "local" / "world" / "object-store" / "data"
    assert any(path.is_file() for path in kept.rglob("snapshots/*"))
    assert not any(SAID.encode() in path.read_bytes() for path in kept.rglob("*") if path.is_file())
    await world.ok("instance", "terminate", user, "--yes", "--reason", "test")
