"""A lost or outdated registry costs no agent its backups: simulated machines, a real object store."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.test_registry_loss import lose
from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import delete_behind_its_back

pytestmark = pytest.mark.turns(60)

USERS = ("ada", "bob", "cyd")


async def test_every_agent_is_backed_up_and_restored_after_its_registry_was_lost(tmp_path: Path) -> None:
    command = Command(tmp_path / "home")
    try:
        await _begin(command)
        for user in USERS:
            await command.ok("backup", "create", user)
        before = {user: await _backups(command, user) for user in USERS}
        await command.ok("instance", "suspend", "cyd", "--reason", "t")
        await command.ok("job", "run", "recovery-records")
        instances = await _instances(command)
        lose(command.home / "local")

        # Killed anywhere, the same command goes on; the last time it is left alone.
        rebuild = ("registry", "rebuild", "--yes", "--reason", "lost")
        for seconds in (0.9, 1.2, 1.5):
            await command.killed_after(seconds, *rebuild)
        ran = await command.ok("registry", "rebuild", "--over", "local", "--yes", "--json")
        assert ran.json["left"] == []
        assert {instance["user"]: instance["status"] for instance in (await _instances(command)).values()} == {
            instance["user"]: instance["status"] for instance in instances.values()
        }
        await command.ok("registry", "check")
        await command.ok("audit", "verify")
        await command.ok("instance", "resume", "cyd", "--reason", "t")
        await command.ok("identity", "renew", "--all")
        for user in USERS:
            kept = await _backups(command, user)
            assert [name for name in kept if name in before[user]] == before[user], user
            await command.ok("backup", "create", user)
            assert len(await _backups(command, user)) == len(kept) + 1
            oldest = before[user][-1]
            await command.ok("backup", "restore", user, "--snapshot", oldest, "--reason", "t", "--yes")
        assert (await command.ok("fleet", "drift", "--json")).json["findings"] == []
    finally:
        await command.run("local", "down", "--purge", "--yes")


async def test_an_agent_whose_machine_went_with_the_registry_comes_back_from_its_backup(tmp_path: Path) -> None:
    command = Command(tmp_path / "home")
    try:
        await _begin(command, "ada")
        await command.ok("backup", "create", "ada")
        (row,) = (await _instances(command)).values()
        lose(command.home / "local")
        await delete_behind_its_back(command.home / "local" / "world", row["machine_id"])
        await command.ok("registry", "rebuild", "--yes")
        await command.ok("image", "build")  # which one there is was in the rows as well
        (finding,) = [
            item for item in (await command.ok("fleet", "drift", "--json")).json["findings"] if item["subject"] == "ada"
        ]
        assert finding["repair"][0] == "hermesops backup restore ada --onto-new-machine", finding
        await command.ok("backup", "restore", "ada", "--onto-new-machine", "--yes", "--reason", "t")
        assert (await command.ok("instance", "list", "--json")).json["instances"][0]["status"] == "running"
    finally:
        await command.run("local", "down", "--purge", "--yes")


async def test_an_old_copy_says_what_it_does_not_know_and_a_rebuild_over_it_adds_that(tmp_path: Path) -> None:
    command = Command(tmp_path / "home")
    try:
        await _begin(command, "ada")
        early = (await command.ok("registry", "copy", "--json")).json
        assert early["instances"] == 1
        await command.ok("provision", "bob", "--plan", "light")
        await command.ok("backup", "create", "bob")
        instances = await _instances(command)
        rows = (await command.ok("registry", "copies", "--json")).json["copies"]
        assert rows[0]["file"] == early["file"]

        restored = (await command.ok("registry", "restore", early["file"], "--over", "local", "--yes", "--json")).json
        (bobs,) = [instance["machine_name"] for instance in instances.values() if instance["user"] == "bob"]
        assert (restored["instances"], restored["unknown_machines"]) == (1, [bobs])
        whole = await command.run("registry", "rebuild", "--yes")
        assert whole.exit_code == 3, str(whole)
        assert "hermesops registry rebuild --over local" in whole.stderr
        other = await command.run("registry", "rebuild", "--over", "production", "--yes")
        assert other.exit_code == 2, str(other)
        entries = (await command.ok("audit", "verify", "--json")).json["entries"]
        added = (await command.ok("registry", "rebuild", "--over", "local", "--yes", "--json")).json
        assert added["written"] == 1
        assert (await _instances(command)).keys() == instances.keys()
        assert (await command.ok("audit", "verify", "--json")).json["entries"] > entries, "the audit goes on"
        reasons = [copy["reason"] for copy in (await command.ok("registry", "copies", "--json")).json["copies"]]
        assert {"before-restore", "before-rebuild", "by-hand"} <= set(reasons)
        await command.ok("identity", "renew", "bob")
        await command.ok("backup", "create", "bob")
        assert len(await _backups(command, "bob")) == 2
    finally:
        await command.run("local", "down", "--purge", "--yes")


async def _begin(command: Command, *users: str) -> None:
    await command.ok("local", "up", "--driver", "sim")
    await command.ok("image", "build")
    await asyncio.gather(*(command.ok("provision", user, "--plan", "light") for user in users or USERS))


async def _backups(command: Command, user: str) -> list[str]:
    return [backup["backup"] for backup in (await command.ok("backup", "list", user, "--json")).json["backups"]]


async def _instances(command: Command) -> dict[str, Any]:
    return {row["instance_id"]: row for row in (await command.ok("instance", "list", "--json")).json["instances"]}
