"""Good releases are never halted: thirty, one after the other, with every gate, and nothing changed but their number.

A gate that halts one of them has compared what chance differs in, such as a gateway that is still starting. The table
that it prints names, of each vital, the figure that came nearest to its limit.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from math import inf
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from rich.table import Table

from hermesops.model.fleet.vitals import Vital
from hermesops.model.rollout.spec import TOLERANCES
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.timeout(3 * 3600)

RELEASES = 30
SIMULATED = 30
"""Seven agents in the first stage: the health gate compares from five on."""

REAL = 2
CHOSEN = ("--all", "--reason", "test", "--drill", "no", "--two-person-above", "1000")


async def test_none_is_halted_on_simulated_agents(tmp_path: Path) -> None:
    async with local_world(tmp_path / "home", driver="sim") as world:
        await _provisioned(world, SIMULATED)
        chosen = ("--stages", "25%,50%,100%", "--max-unavailable", "50%", "--at-once", "100", "--settle", "1s")
        await _all_rolled_out(world, f"{SIMULATED} simulated agents", *chosen, "--soak", "5s")


@pytest.mark.machines
async def test_none_is_halted_on_real_agents_that_are_monitored(tmp_path: Path) -> None:
    """With Prometheus: its figures count in the place of those that nodes have."""
    async with local_world(tmp_path / "home", image=False) as world:
        await world.ok("local", "up", "--monitoring")
        await world.ok("image", "build", "hermes-base")
        await _provisioned(world, REAL)
        async with _watched(world):
            await _all_rolled_out(world, f"{REAL} real agents", "--soak", "45s")


@asynccontextmanager
async def _watched(world: Command) -> AsyncIterator[None]:
    """A monitor until the block ends: an alert that there is none holds every rollout."""
    monitor = await world.start("monitor")
    reading = asyncio.ensure_future(monitor.communicate())  # an hour of its lines is more than a pipe holds
    try:
        yield
    finally:
        monitor.terminate()
        await asyncio.wait_for(reading, 90)


async def _provisioned(world: Command, count: int) -> None:
    users = world.home / "users"
    users.write_text("".join(f"user{number:03}\n" for number in range(count)))
    await world.ok("provision", "--from", str(users), "--plan", "light")


async def _all_rolled_out(world: Command, title: str, *options: str) -> None:
    table = Table("release", "touched", "failed", "after", "ended", title=f"{RELEASES} good releases, {title}")
    halted: list[str] = []
    nearest: dict[str, Nearest] = {}
    try:
        for number in range(RELEASES):
            release = await _built(world, f"good {number}")
            rollout = await world.run("rollout", "start", release, *CHOSEN, *options, "--json", timeout_s=1800)
            progress, row = rollout.json["progress"], rollout.json["rollout"]
            ended = " ".join(filter(None, (row["state"], row["reason"])))
            figures = (str(progress["touched"]), str(progress["failed"]), f"{rollout.seconds:.0f} s")
            table.add_row(str(number), *figures, ended)
            await _note_nearest(world, row["id"], nearest)
            if (rollout.exit_code, row["state"], progress["failed"]) != (0, "done", 0):
                halted.append(f"release {number}: {ended}, {progress['failed']} failed")
                await world.run("rollout", "abort", "--reason", "test")
    finally:
        Console(width=150).print(table)
        Console(width=150).print(_gate_table(nearest))
    assert not halted


@dataclass
class Nearest:
    """The figures of one vital over all releases that came nearest to a halt."""

    compared: int = 0
    worse: float = -inf
    chance: float = 1.0
    result: str = ""

    def add(self, compared: Mapping[str, Any]) -> None:
        if not (compared["canaries"] and compared["controls"]):
            return
        self.compared += 1
        if (compared["chance"], -compared["worse"]) <= (self.chance, -self.worse):
            self.chance, self.worse, self.result = compared["chance"], compared["worse"], compared["result"]


async def _note_nearest(world: Command, rollout: str, nearest: dict[str, Nearest]) -> None:
    for event in (await world.ok("rollout", "explain", rollout, "--json")).json["events"]:
        for compared in event["evidence"].get("compared", ()):
            nearest.setdefault(compared["vital"], Nearest()).add(compared)


def _gate_table(nearest: Mapping[str, Nearest]) -> Table:
    table = Table("vital", "comparisons", "smallest chance", "worse by", "limit", "verdict", title="nearest to a halt")
    for vital, figures in nearest.items():
        limit = f"{TOLERANCES[Vital(vital)].allowed:g}"
        row = (str(figures.compared), f"{figures.chance:.3g}", f"{figures.worse:.2f}", limit, figures.result)
        table.add_row(vital, *row)
    return table


async def _built(world: Command, note: str) -> str:
    """Build a release that differs from the one before in a variable that nothing reads."""
    managed = world.home / "managed.json"
    managed.write_text(json.dumps({"config": {}, "environment": {"HERMES_GOOD_RELEASE": note}}))
    await world.ok("release", "build", "--managed", str(managed), "--note", note)
    listed: list[dict[str, Any]] = (await world.ok("release", "list", "--json")).json["releases"]
    return next(str(release["id"]) for release in listed if release["note"] == note)
