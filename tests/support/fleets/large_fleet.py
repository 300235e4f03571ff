"""A fleet in cells: made under kills and refusals, broken by a seed, brought back by what hermesops itself prints."""

import random
import re
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from hermesops.agents.drift.finding import Kind
from hermesops.app import Container
from hermesops.app.connected import Connected
from hermesops.base.waiting import Pending, until
from hermesops.errors import HermesError
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import FaultOrder
from hermesops.localcloud.server.control_client import ControlClient
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.plan import Plan
from hermesops.model.stack import ChangeKind
from hermesops.settings.environment import Environment
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fleets.planted_drift import Expected, Ground, plant
from tests.support.fleets.repairs import Manner, Repairs, repair_all
from tests.support.real.commands.command import Command, Ran

HONEST = {0, 3, 4, 5, 6}
"""What an ``up`` may end with that is refused, unanswered or done in part."""

AT_ONCE = 16
"""Provisions side by side in this process."""

_TRIES = 12
_SLOW_FOR_S = 20
_ORDERS = (
    FaultOrder(FaultKind.PAYMENT_REQUIRED),
    FaultOrder(FaultKind.SOLD_OUT),
    FaultOrder(FaultKind.UNPROCESSABLE),
    FaultOrder(FaultKind.CREATED_BUT_5XX),
    FaultOrder(FaultKind.LOST_ANSWER, method="POST", path="/machines"),
    FaultOrder(FaultKind.EDGE_ERROR_BUT_DONE, method="POST", path="/machines", status=502),
    FaultOrder(FaultKind.NOT_FOUND, times=3),
    FaultOrder(FaultKind.ERROR_THEN_READY),
    FaultOrder(FaultKind.READY_EARLY),
    # Made, and not seen to become ready by any run that is killed before this ends.
    FaultOrder(FaultKind.SERVER_ERROR, method="GET", path="/machines/", status=503, for_s=_SLOW_FOR_S),
)


@dataclass(frozen=True)
class Scale:
    """How large a trial is.

    Attributes:
        machines: In all.
        per_cell: In one cell.
        kills: Of ``stack up --all``, each at a create, none of them later than would leave none for the next.
        times: How many machines each vendor's fault strikes, and each way of breaking is done to.
    """

    machines: int
    per_cell: int
    kills: int
    times: int

    @property
    def cells(self) -> int:
        return -(-self.machines // self.per_cell)


@dataclass(frozen=True)
class Told:
    """What a trial came to, without what differs from run to run: ids, times, and what happened to be under way.

    Attributes:
        ups: Exit codes of the runs that nobody killed, until all cells were what their rows say.
        decisions: What was found of what was broken, and the commands that were said to repair it.
        final: Each user's row and machine.
        figures: For the table.
    """

    ups: tuple[int, ...]
    decisions: tuple[tuple[str, str, tuple[str, ...]], ...]
    final: Mapping[str, tuple[str, ...]]
    figures: Mapping[str, str]


async def trial(world: Command, scale: Scale, seed: int) -> Told:
    """One trial in a new world of simulated machines with an image."""
    chance = random.Random(seed)  # noqa: S311 - repeatable on purpose
    app = Container(Environment.load("local", world.environ), lambda _: None)
    users = [f"user{number:03}" for number in range(scale.machines)]
    async with app.connect() as connected:
        for user in users:
            await connected.admission.admit(user, Plan.LIGHT)
    await order_faults(world, app, chance, scale.times)
    for _ in range(scale.kills):
        await up_killed_at(world, chance.randint(1, scale.machines // (scale.kills + 1)))
    ups = await up_until_done(world, app)
    async with app.connect() as connected:
        repairs = await repair_all(world, Manner(partial(_run_here, world, connected), at_once=AT_ONCE))
    ended = chance.choice(users)
    await world.ok("instance", "terminate", ended, "--yes", "--reason", "test")
    await check_whole(app, set(users) - {ended})

    before = await rows(world)
    async with app.connect() as connected:
        ground = Ground(connected, chance)
        await plant(ground, app.registry.fleet.list_ordered(), scale.times)
    repaired = await repair_all(world, _same_each_time(world, ground.names))
    expected = {Expected(r.finding["kind"], ground.names.get(s := r.finding["subject"], s)) for r in repaired.rounds[0]}
    assert expected == ground.expected, expected ^ ground.expected
    await check_whole(app, set(users) - {ended} - ground.leaving)
    after = await rows(world)
    for user in after.keys() - ground.anew:
        assert after[user] == before[user], f"{user} was {before[user]}, is {after[user]}"
    return Told(ups, _decisions(repaired, ground.names), await final(app), _figures(scale, ups, repairs, repaired))


async def order_faults(world: Command, app: Container, chance: random.Random, times: int) -> None:
    """Have the vendor go wrong about machines that are not made yet, each in one way."""
    by_age = [instance.machine_name for instance in app.registry.instances.list()]
    victims = iter(chance.sample(by_age, k=min(len(by_age), times * len(_ORDERS))))
    status = (await world.ok("local", "status", "--json")).json
    client = ControlClient(status["api_url"], Path(status["api_key_file"]))
    for order in _ORDERS:
        for _ in range(times):
            if victim := next(victims, None):
                await client.set_fault({**vars(order), "machine": victim})


async def up_killed_at(world: Command, number: int) -> None:
    """Kill a ``stack up --all`` at the so manieth create that it tells of; what it held stays held for a while."""
    await world.killed_at(": create hermes-", "stack", "up", "--all", nth=number)


async def up_until_done(world: Command, app: Container) -> tuple[int, ...]:
    """Repeat one ``stack up --all`` as its own words say, and wait for the leases of the dead."""
    codes: list[int] = []
    while len(codes) < _TRIES:
        await until(_nobody_works(app), what="the leases of the dead to run out", timeout_s=60, every_s=0.2)
        ran = await world.run("stack", "up", "--all")
        codes.append(ran.exit_code)
        assert ran.exit_code in HONEST, str(ran)
        assert "Traceback" not in ran.stderr, str(ran)
        if ran.exit_code == 0:
            return tuple(codes)
        assert "hint:" in ran.stderr, str(ran)
    raise AssertionError(str(ran))


def _nobody_works(app: Container) -> Any:  # noqa: ANN401 - what ``until`` takes
    async def observe() -> bool | Pending[bool]:
        held = app.registry.leases.list()
        return Pending(", ".join(lease.subject for lease in held)) if held else True

    return observe


async def _run_here(world: Command, connected: Connected, words: Sequence[str]) -> Ran:
    """Run a ``provision`` as its command does, in this process: there are hundreds of them. Others are run as typed."""
    if words[0] != "provision":
        return await world.run(*words)
    user, plan = words[1], Plan(words[3])
    begun = time.monotonic()
    try:
        _, operation = await connected.admission.admit(user, plan)
        outcome, error, code = await connected.operations.run(operation), "", 0
    except HermesError as failure:
        outcome, error, code = "", f"error: {failure.message}", failure.exit_code
    return Ran(tuple(words), code, outcome, error, time.monotonic() - begun)


def _same_each_time(world: Command, names: Mapping[str, str]) -> Manner:
    """Repair so that a second run does the same: one cell's one after the other, and what is placed anew at the end."""
    return Manner(
        lambda words: world.run(*words),
        key=lambda finding: _called(names, f"{finding['subject']} {finding['kind']}"),
        line=lambda finding: str(finding["cell"]),
        is_last=lambda finding: finding["kind"] == Kind.MACHINE_MISSING,
    )


async def check_whole(app: Container, users: set[str]) -> None:
    """Every wanted machine is there once and ready, nothing else is, and nothing would change."""
    living = {row.instance.title: row.instance for row in app.registry.fleet.list_ordered()}
    assert living.keys() == users, living.keys() ^ users
    assert {instance.status for instance in living.values()} == {InstanceStatus.RUNNING}
    async with app.vendor() as client:
        listed = await client.list_machines()
    assert Counter(machine.name for machine in listed) == Counter(instance.machine_name for instance in living.values())
    assert {machine.id for machine in listed} == {instance.machine_id for instance in living.values()}
    assert {machine.status for machine in listed} == {MachineStatus.READY}
    for cell in app.registry.cells.list():
        changes = (await app.cell_stacks.preview(cell.name)).changes
        assert [change for change in changes if change.kind is not ChangeKind.SAME] == []
        drift = (await app.cell_stacks.preview_refresh(cell.name)).changes
        assert [change for change in drift if change.kind is not ChangeKind.SAME] == []
    assert not [operation for operation in app.registry.operations.list() if not operation.status.has_ended]
    assert app.contradictions() == ()


async def rows(world: Command) -> dict[str, dict[str, Any]]:
    """Living instances as everybody sees them, by user."""
    listed = (await world.ok("instance", "list", "--json")).json["instances"]
    return {row["user"]: row for row in listed}


async def final(app: Container) -> dict[str, tuple[str, ...]]:
    """What every user has in the end."""
    async with app.vendor() as client:
        machines = {machine.id: machine for machine in await client.list_machines()}
    lines: dict[str, tuple[str, ...]] = {}
    for row in app.registry.fleet.list_ordered():
        machine = machines[row.instance.machine_id or ""]
        has = (machine.status.value, machine.server_type, machine.region)
        lines[row.instance.title] = (row.instance.plan, row.instance.status, row.instance.cell, row.server_type, *has)
    return lines


def _decisions(repairs: Repairs, names: Mapping[str, str]) -> tuple[tuple[str, str, tuple[str, ...]], ...]:
    """What the first look said: how often a command has to be repeated may hang on how busy the computer is."""
    return tuple(
        (
            repair.finding["kind"],
            _called(names, repair.finding["subject"]),
            tuple(_called(names, command) for command in (*repair.finding["repair"], *repair.finding["otherwise"])),
        )
        for repair in repairs.rounds[0]
    )


def _called(names: Mapping[str, str], text: str) -> str:
    """Words in which two runs agree."""
    for name, called in names.items():
        text = text.replace(name, called)
    return re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "ID", text)


def _figures(scale: Scale, ups: tuple[int, ...], first_repairs: Repairs, repaired: Repairs) -> dict[str, str]:
    kinds = Counter(repair.finding["kind"] for repair in repaired.rounds[0])
    exits = Counter(ran.exit_code for ran in repaired.commands)
    return {
        "machines in cells": f"{scale.machines} in {scale.cells}",
        "runs killed": str(scale.kills),
        "then runs, with exit": ", ".join(map(str, ups)),
        "faults of the vendor": str(min(scale.machines, scale.times * len(_ORDERS))),
        "to finish what was begun": f"{len(first_repairs.commands)} commands in {len(first_repairs.rounds)} rounds",
        "differences planted": ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())),
        "to repair them": f"{len(repaired.commands)} commands in {len(repaired.rounds)} rounds",
        "with exits": ", ".join(f"{count} of {code}" for code, count in sorted(exits.items())),
    }
