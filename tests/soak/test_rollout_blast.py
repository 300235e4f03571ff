"""Bad releases on two hundred simulated machines: how many they reach before they are halted, and how soon.

Every machine runs hermes-node's own code, and the command is the installed one, with its defaults but for a shorter
soak. What a fault does is told in ``localcloud.drivers.sim.agent.release_faults``.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.timeout(3600)

USERS = 200
CHOSEN = ("--all", "--reason", "test", "--drill", "no", "--soak", "30s", "--two-person-above", "1000")


@dataclass(frozen=True)
class Bad:
    """A release.

    Attributes:
        fault: What is wrong with it.
        reaches: How many machines it may be brought to, over all.
        keeps: How many of those may still run it in the end.
    """

    name: str
    fault: str
    reaches: int
    keeps: int


BAD = (
    Bad("no start, on all", "start:1", reaches=3, keeps=0),
    Bad("no turns, on all", "turn:1", reaches=3, keeps=0),
    Bad("no start, on 30 %", "start:0.3", reaches=30, keeps=20),
    Bad("no turns, on 30 %", "turn:0.3", reaches=30, keeps=20),
    # Only who came through its soak before anybody was seen to be hurt may keep it.
    Bad("no turns after 5 s, on all", "late:1:5", reaches=10, keeps=3),
    Bad("no turns after 5 s, on 30 %", "late:0.3:5", reaches=30, keeps=20),
    Bad("turns four times as slow, on all", "slow:1:4", reaches=10, keeps=10),
)


async def test_a_bad_release_reaches_few_and_is_halted(tmp_path: Path) -> None:
    table = Table(
        "release", "touched", "failed", "run it in the end", "halted after", "by", title=f"{USERS} simulated machines"
    )
    try:
        async with local_world(tmp_path / "home", driver="sim") as world:
            users = world.home / "users"
            users.write_text("".join(f"user{number:03}\n" for number in range(USERS)))
            await world.ok("provision", "--from", str(users), "--plan", "light")
            for bad in BAD:
                await _rolled_out(world, bad, table)
    finally:
        Console(width=170).print(table)


async def _rolled_out(world: Command, bad: Bad, table: Table) -> None:
    ran = await world.run("rollout", "start", await _built(world, bad), *CHOSEN, "--json", timeout_s=900)
    report = ran.json
    outlook, on_release = report["progress"], await _running(world)
    table.add_row(
        bad.name,
        str(outlook["touched"]),
        str(outlook["failed"]),
        str(on_release),
        f"{ran.seconds:.0f} s",
        str(report["rollout"]["reason"]),
    )
    assert (ran.exit_code, report["rollout"]["state"]) == (8, "halted"), ran
    assert outlook["touched"] <= bad.reaches, bad
    assert on_release <= bad.keeps, bad
    await world.ok("rollout", "abort", "--reason", "test")
    if on_release:
        await world.ok("rollback", "--rollout", report["rollout"]["id"], "--reason", "test", "--yes")
    assert not await _running(world)


async def _built(world: Command, bad: Bad) -> str:
    managed = world.home / "managed.json"
    managed.write_text(json.dumps({"config": {}, "environment": {"HERMES_SIMULATED_FAULT": bad.fault}}))
    await world.ok("release", "build", "--managed", str(managed), "--note", bad.name)
    listed: list[dict[str, Any]] = (await world.ok("release", "list", "--json")).json["releases"]
    return next(str(release["id"]) for release in listed if release["note"] == bad.name)


async def _running(world: Command) -> int:
    """How many run the release of the last rollout, as far as that knows."""
    rollout_status = (await world.ok("rollout", "status", "--json")).json
    return sum(bool(target["on_release"]) for target in rollout_status["targets"])
