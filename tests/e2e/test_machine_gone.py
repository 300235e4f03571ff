"""A machine that JustAVPS deleted or stopped: what is advised works, and nobody is told that all run."""

import re
import shlex
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.base.waiting import pause
from tests.support.real.commands.command import Command, local_world
from tests.support.vendor.outside_changes import delete_behind_its_back, told, vendor_of

KEPT = {"HERMESOPS_LAST_BACKUP": "required", "HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_PREVIOUS_DAYS": "1"}
"""As environments are set up in which agents know something."""

ASKING = {"terminate", "restore"}


@pytest.fixture
async def world(tmp_path: Any) -> AsyncIterator[Command]:  # noqa: ANN401 - pytest's own
    async with local_world(tmp_path / "home", driver="sim", variables=KEPT) as command:
        yield command


async def provisioned(world: Command, *users: str) -> dict[str, str]:
    """The machines of new users."""
    rows = [(await world.ok("provision", user, "--plan", "light", "--json")).json["instance"] for user in users]
    return {row["user"]: row["machine_id"] for row in rows}


async def run_as_told(world: Command, line: str) -> None:
    program, *words = shlex.split(line)
    assert program == "hermesops"
    await world.ok(*words, *(["--yes", "--reason", "t"] if ASKING & set(words) else []))


@pytest.mark.turns(12)
async def test_every_repair_of_a_machine_that_is_gone_works(world: Command) -> None:
    machines = await provisioned(world, "kept", "asleep", "lost")
    for user in ("kept", "asleep"):
        await world.ok("backup", "create", user)
    await world.ok("instance", "suspend", "asleep", "--machine", "stopped", "--reason", "t")
    for machine in machines.values():
        await delete_behind_its_back(world.home / "local" / "world", machine)

    findings = {item["subject"]: item for item in (await world.ok("fleet", "drift", "--json")).json["findings"]}
    assert {user: item["kind"] for user, item in findings.items()} == {
        "kept": "machine-restorable",
        "asleep": "machine-restorable",
        "lost": "machine-missing",
    }
    for user, finding in findings.items():
        advised = await world.run("provision", user, "--plan", "light")
        if user != "asleep":
            assert advised.exit_code == 3, str(advised)
            assert ("terminate" in advised.stderr) == (user == "lost"), str(advised)
        if user == "kept":
            assert finding["repair"][0] in advised.stderr, str(advised)
        assert finding["otherwise"] == []
        for command in finding["repair"]:
            await run_as_told(world, command)
    assert (await world.ok("fleet", "drift")).stdout == "nothing differs\n"


@pytest.mark.turns(10)
async def test_nobody_is_told_that_all_run_where_the_vendor_says_otherwise(world: Command) -> None:
    machines = await provisioned(world, "ada", "bob", "cleo")
    never = (await world.ok("fleet", "status", "--json")).json
    assert (never["health"], never["by_health"]) == ({"machines_listed_at": None, "instances": []}, {"unknown": 3})
    assert "health: 3 unknown" in (await world.ok("fleet", "status")).stdout
    fleet_status = (await world.ok("fleet", "status", "--live", "--ask", "--json")).json
    assert fleet_status["by_health"] == {"healthy": 3}

    async with vendor_of(world.home / "local" / "world") as api:
        (await api.delete(f"/machines/{machines['bob']}")).raise_for_status()
        (await api.post(f"/machines/{machines['cleo']}/stop")).raise_for_status()
        await told(api, f"/machines/{machines['cleo']}", status="stopped")
    before = (await world.ok("fleet", "status", "--json")).json["health"]
    assert before["machines_listed_at"] == fleet_status["health"]["machines_listed_at"], "the vendor was asked unasked"
    await pause(1)  # times are told to the second
    status_after = (await world.ok("fleet", "status", "--live", "--ask", "--json")).json
    assert status_after["by_status"] == {"running": 3}
    assert status_after["health"]["machines_listed_at"] > before["machines_listed_at"]
    assert [(instance["user"], instance["health"]) for instance in status_after["health"]["instances"]] == [
        ("bob", "down"),
        ("cleo", "down"),
    ]
    assert "its machine was gone when JustAVPS was asked" in status_after["health"]["instances"][0]["reasons"][0]
    told_later = (await world.ok("fleet", "status")).stdout
    assert "health: 2 down, 1 healthy" in told_later
    assert re.search(r"^bob +down +\d+ s +its machine was gone when JustAVPS was asked", told_later, re.MULTILINE)
    assert f"{status_after['health']['machines_listed_at'][:16].replace('T', ' ')} UTC" in told_later
    listed = (await world.ok("fleet", "status", "--health", "down")).stdout
    assert [line.split()[0] for line in listed.splitlines()] == ["USER", "bob", "cleo"]
    shown = (await world.ok("instance", "show", "ada", "--json")).json["instance"]
    assert (shown["health"], shown["reasons"]) == ("healthy", ["the gateway answered 0 s ago"])
    happened = (await world.ok("instance", "timeline", "bob", "--since", "1h", "--json")).json["timeline"]
    assert {"operation_opened", "operation_step", "operation_ended"} <= {item["what"] for item in happened}
    assert happened[-1]["what"] == "machine_gone_seen"
