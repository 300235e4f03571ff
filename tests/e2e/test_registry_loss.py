"""The registry is lost with all its copies, and made anew from what JustAVPS and the machines know."""

import shutil
from pathlib import Path

from tests.support.command import Command

USERS = ("ada", "bob", "cyd")


async def test_a_lost_registry_is_rebuilt_and_nothing_differs(tmp_path: Path) -> None:
    command = Command(tmp_path / "home")
    try:
        await command.ok("local", "up", "--driver", "sim")
        await command.ok("image", "build")
        for user in USERS:
            await command.ok("provision", user, "--plan", "light")
        whole = await command.run("registry", "rebuild", "--dry-run")
        assert whole.exit_code == 3, str(whole)
        before = (await command.ok("instance", "list", "--json")).json["instances"]
        lose(command.home / "local")

        told = (await command.ok("registry", "rebuild", "--dry-run", "--json")).json
        assert {one["instance_id"] for one in told["instances"]} == {row["instance_id"] for row in before}
        assert {left["name"] for left in told["left"]} == {row["user_id"] for row in before}, "whose alias is lost"
        assert not (command.home / "local" / "registry.db").exists()
        unconfirmed = await command.run("registry", "rebuild", "--alias", "ada")
        assert unconfirmed.exit_code == 3, str(unconfirmed)

        aliases = [word for user in USERS for word in ("--alias", user)]
        assert (await command.ok("registry", "rebuild", *aliases, "--yes", "--json")).json["written"] == len(USERS)
        after = (await command.ok("instance", "list", "--json")).json["instances"]
        changing = {"created_at", "last_heartbeat"}
        assert [{k: v for k, v in row.items() if k not in changing} for row in sorted(after, key=by_user)] == [
            {k: v for k, v in row.items() if k not in changing} for row in sorted(before, key=by_user)
        ]
        assert (await command.ok("fleet", "drift", "--json")).json["findings"] == []
        await command.ok("registry", "check")
        await command.ok("audit", "verify")
        # Which certificates count was in the rows as well, as the runbook says.
        await command.ok("identity", "renew", "--all")
        again = await command.ok("provision", "bob", "--plan", "light")
        assert "handing" not in again.stderr, "what the machine was handed came back otherwise"
        await command.ok("instance", "terminate", "ada", "--yes", "--reason", "t")
    finally:
        await command.run("local", "down", "--purge", "--yes")


def lose(folder: Path) -> None:
    """Everything of the registry, but for its key."""
    for path in (*folder.glob("registry*"), *folder.glob("audit*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def by_user(row: dict[str, str]) -> str:
    return row["user"]
