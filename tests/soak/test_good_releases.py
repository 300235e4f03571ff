"""Good releases are never halted: thirty, one after the other, with every gate, and nothing changed but their number.

A gate that halts one of them has compared what chance differs in, such as a gateway that is still starting.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.timeout(3 * 3600)

RELEASES = 30
SIMULATED = 200
REAL = 4
CHOSEN = ("--all", "--reason", "test", "--drill", "no", "--two-person-above", "1000")


async def test_none_is_halted_on_simulated_agents(tmp_path: Path) -> None:
    async with local_world(tmp_path / "home", driver="sim") as world:
        await _provisioned(world, SIMULATED)
        chosen = ("--stages", "10%,50%,100%", "--max-unavailable", "50%", "--at-once", "100", "--settle", "1s")
        await _all_rolled_out(world, f"{SIMULATED} simulated agents", *chosen, "--soak", "10s")


@pytest.mark.machines
async def test_none_is_halted_on_real_agents_that_are_monitored(tmp_path: Path) -> None:
    """With Prometheus: its figures count in the place of those that nodes have."""
    async with local_world(tmp_path / "home", image=False) as world:
        await world.ok("local", "up", "--monitoring")
        await world.ok("image", "build", "hermes-base")
        await _provisioned(world, REAL)
        await _all_rolled_out(world, f"{REAL} real agents", "--soak", "45s")


async def _provisioned(world: Command, count: int) -> None:
    users = world.home / "users"
    users.write_text("".join(f"user{number:03}\n" for number in range(count)))
    await world.ok("provision", "--from", str(users), "--plan", "light")


async def _all_rolled_out(world: Command, title: str, *options: str) -> None:
    table = Table("release", "touched", "failed", "after", "ended", title=f"{RELEASES} good releases, {title}")
    halted: list[str] = []
    try:
        for number in range(RELEASES):
            release = await _built(world, f"good {number}")
            rollout = await world.run("rollout", "start", release, *CHOSEN, *options, "--json", timeout_s=1800)
            progress, row = rollout.json["progress"], rollout.json["rollout"]
            ended = " ".join(filter(None, (row["state"], row["reason"])))
            figures = (str(progress["touched"]), str(progress["failed"]), f"{rollout.seconds:.0f} s")
            table.add_row(str(number), *figures, ended)
            if (rollout.exit_code, row["state"], progress["failed"]) != (0, "done", 0):
                halted.append(f"release {number}: {ended}, {progress['failed']} failed")
                await world.run("rollout", "abort", "--reason", "test")
    finally:
        Console(width=150).print(table)
    assert not halted


async def _built(world: Command, note: str) -> str:
    """Build a release that differs from the one before in a variable that nothing reads."""
    managed = world.home / "managed.json"
    managed.write_text(json.dumps({"config": {}, "environment": {"HERMES_GOOD_RELEASE": note}}))
    await world.ok("release", "build", "--managed", str(managed), "--note", note)
    listed: list[dict[str, Any]] = (await world.ok("release", "list", "--json")).json["releases"]
    return next(str(release["id"]) for release in listed if release["note"] == note)
