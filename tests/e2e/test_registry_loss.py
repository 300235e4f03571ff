"""The registry is lost with all its copies, and made anew from what JustAVPS and the machines know."""

import json
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import vendor_of

pytestmark = pytest.mark.turns(15)

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

        registry_rebuild = (await command.ok("registry", "rebuild", "--dry-run", "--json")).json
        assert {instance["instance_id"] for instance in registry_rebuild["instances"]} == {
            row["instance_id"] for row in before
        }
        assert {left["name"] for left in registry_rebuild["left"]} == {row["user_id"] for row in before}, (
            "whose alias is lost"
        )
        assert not (command.home / "local" / "registry.db").exists()
        unconfirmed = await command.run("registry", "rebuild", "--alias", "ada")
        assert unconfirmed.exit_code == 3, str(unconfirmed)

        aliases = [word for user in USERS for word in ("--alias", user)]
        assert (await command.ok("registry", "rebuild", *aliases, "--yes", "--json")).json["written"] == len(USERS)
        after = (await command.ok("instance", "list", "--json")).json["instances"]
        # A release is known again once an operation has observed it.
        changing = {"created_at", "last_heartbeat", "age_s", "reasons", "release", "release_since"}
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


async def test_a_machine_that_poses_as_another_instance_is_believed_nowhere_and_gets_nobody_destroyed(
    tmp_path: Path,
) -> None:
    """Root on eve's machine writes ada's ids and a higher epoch, then the registry is lost."""
    command = Command(tmp_path / "home")
    folder = command.home / "local"
    try:
        await command.ok("local", "up", "--driver", "sim")
        await command.ok("image", "build")
        for user in ("ada", "eve", "bob"):
            await command.ok("provision", user, "--plan", "light")
        rows = {row["user"]: row for row in (await command.ok("instance", "list", "--json")).json["instances"]}
        async with vendor_of(folder / "world") as vendor:
            await pose(vendor, rows["eve"]["machine_id"], as_machine=rows["ada"]["machine_id"])
        lose(folder)

        aliases = [word for user in ("ada", "eve", "bob") for word in ("--alias", user)]
        registry_rebuild = (await command.ok("registry", "rebuild", *aliases, "--yes", "--dry-run", "--json")).json
        assert [instance["user"] for instance in registry_rebuild["instances"]] == ["bob"]
        true, liar = rows["ada"]["machine_name"], rows["eve"]["machine_name"]
        claims = {left["name"]: left["why"] for left in registry_rebuild["left"]}
        assert claims.keys() == {true, liar}
        assert all(f"{true} (epoch 1" in why and f"{liar} (epoch 2" in why for why in claims.values()), claims
        assert all(f"belongs to instance {rows['eve']['instance_id']}" in why for why in claims.values()), (
            "whose token it has"
        )

        await command.ok("registry", "rebuild", *aliases, "--yes")
        for name in (true, liar):
            refused = await command.run("fleet", "repair", "adopt", name)
            assert refused.exit_code == 3, str(refused)
            assert "--contested" in refused.stderr
        # Somebody believes the liar all the same: the true machine is not destroyed for it.
        await command.ok("fleet", "repair", "adopt", liar, "--contested")
        kept = await command.run("fleet", "repair", "remove-orphan", true, "--yes")
        assert kept.exit_code == 3, str(kept)
        assert "does not prove the same" in kept.stderr
        assert true in {machine["name"] for machine in await command.machines()}
    finally:
        await command.run("local", "down", "--purge", "--yes")


async def pose(vendor: httpx.AsyncClient, machine_id: str, *, as_machine: str) -> None:
    """Let a machine say that it is the instance of another one, at a later epoch; secrets it only has its own."""
    for name in ("identity", "instance"):
        theirs, own = [await json_of(vendor, of, name) for of in (as_machine, machine_id)]
        identity = (theirs if name == "identity" else theirs["identity"]) | {"epoch": 2}
        lie = identity if name == "identity" else own | {"identity": identity}
        sent = await vendor.post(
            f"machines/{machine_id}/toolbox/files/upload",
            params={"path": f"/etc/hermes-node/{name}.json", "mode": "600", "overwrite": "true"},
            content=json.dumps(lie).encode(),
        )
        assert sent.is_success, sent.text


async def json_of(vendor: httpx.AsyncClient, machine_id: str, name: str) -> dict[str, Any]:
    path = f"/etc/hermes-node/{name}.json"
    answer = await vendor.get(f"machines/{machine_id}/toolbox/files/download", params={"path": path})
    series: dict[str, Any] = answer.json()
    return series


def lose(folder: Path) -> None:
    """Everything of the registry, but for its key."""
    for path in (*folder.glob("registry*"), *folder.glob("audit*")):
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def by_user(row: dict[str, str]) -> str:
    return row["user"]
