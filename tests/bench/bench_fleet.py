"""A fleet of simulated machines: a hundred provisions at once, what an ``up`` costs as the fleet grows, and memory."""

import asyncio
import os
import signal
import sqlite3
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.localcloud.drivers.sim.store import Record, Store
from hermesops.model.ids import CellName
from hermesops.model.plan import Plan
from hermesops.settings.environment import Environment
from tests.bench.figures import Board, report
from tests.support.real.commands.command import INSTALLED, Command

AT_ONCE = 100
FLEETS = (100, 1_000, 10_000)
WORLDS = (10_000, 100_000)
_CELL = 40
_ELSEWHERE = "nbg1"
"""Region of copied machines, so that no new one is placed in a cell whose machines no stack has made."""


class Counted:
    """An engine's ``up`` that is counted."""

    def __init__(self, up: Callable[..., Awaitable[Any]]) -> None:
        self._up = up
        self.seconds: list[float] = []

    async def __call__(self, *arguments: object, **options: object) -> object:
        """Run it."""
        started = time.perf_counter()
        try:
            return await self._up(*arguments, **options)
        finally:
            self.seconds.append(time.perf_counter() - started)


async def measure(board: Board, folder: Path, cache: str) -> None:
    """Add the figures, in worlds of their own; nothing of them is left."""
    command = Command(folder / "home", {"HERMESOPS_CACHE": cache, "HERMESOPS_LOCAL_DRIVER": "sim"}, INSTALLED)
    try:
        report(f"==> {AT_ONCE} provisions at once, machines simulated")
        await command.ok("local", "up")
        await command.ok("image", "build")
        app = Container(Environment.load("local", command.environ), lambda _: None)
        await provisions_at_once(board, app)
        for count in FLEETS:
            report(f"==> an up in a fleet of {count}")
            await up_in_a_fleet(board, command, app, count)
        for count in WORLDS:
            report(f"==> a world of {count} simulated machines")
            await memory(board, command, count)
    finally:
        await command.ok("local", "down", "--purge", "--yes")


async def provisions_at_once(board: Board, app: Container) -> None:
    """A hundred users to running agents, in one process."""
    counted = Counted(app.engine.up)
    app.engine.up = counted  # type: ignore[assignment,method-assign]

    async with app.connect() as connected:

        async def one(user: str) -> None:
            _, operation = await connected.admission.admit(user, Plan.LIGHT)
            await connected.operations.run(operation)

        started = time.perf_counter()
        await asyncio.gather(*(one(f"user{number}") for number in range(AT_ONCE)))
        seconds = time.perf_counter() - started
    running = sum(instance.status == "running" for instance in app.registry.instances.list())
    assert running == AT_ONCE, running
    cells = len(app.registry.cells.list())
    spent = ", ".join(f"{each:.1f}" for each in counted.seconds)
    board.add(
        f"{AT_ONCE} provisions at once, simulated machines, one process",
        f"{seconds:.1f} s",
        target="<= 60 s",
        against=f"{len(counted.seconds)} ups in {cells} cells, of {spent} s",
    )


async def up_in_a_fleet(board: Board, command: Command, app: Container, count: int) -> None:
    """One machine more, and no change at all, in a cell of a fleet of that many machines in cells of 40."""
    await end_server(command)
    await asyncio.to_thread(grow_registry, app.env.folder / "registry.db", count)
    await asyncio.to_thread(grow_world, app.env.world, count)
    await command.ok("local", "up")
    del app.endpoint  # the server has another port now
    async with app.connect() as connected:
        instance, _ = await connected.admission.admit(f"another-{count}", Plan.LIGHT)
    took = {}
    for what in ("one machine more", "no change"):
        started = time.perf_counter()
        await app.cell_stacks.up(CellName(instance.cell))
        took[what] = time.perf_counter() - started
    listing = await seconds_of_listing(app)
    board.add(
        f"an up of a cell, in a fleet of {count} machines",
        ", ".join(f"{what} {seconds:.2f} s" for what, seconds in took.items()),
        target="flat",
        against=f"GET /machines of all of them: {listing:.2f} s",
    )


async def end_server(command: Command) -> None:
    """End a world's server and leave its machines on, as a crash would."""
    pid = int((await command.ok("local", "status", "--json")).json["pid"])
    os.kill(pid, signal.SIGTERM)

    async def gone() -> bool | Pending[bool]:
        return True if is_dead(pid) else Pending("it runs")

    await until(gone, what="the server to end", timeout_s=60, every_s=0.05)


def is_dead(pid: int) -> bool:
    """Whether a process has ended and nobody has asked yet."""
    try:
        return " Z " in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return True


async def seconds_of_listing(app: Container) -> float:
    """How long the vendor takes to list every machine."""
    async with app.connect() as connected:
        started = time.perf_counter()
        await connected.client.list_machines()
        return time.perf_counter() - started


def grow_registry(database: Path, count: int) -> None:
    """Copy the first instance's rows until there are that many, in cells of 40, none in a cell that is in use."""
    with sqlite3.connect(database) as db:
        (held,) = db.execute("SELECT count(*) FROM hermes_instances").fetchone()
        first = {table: row_of(db, table) for table in ("users", "hermes_instances", "instance_details", "cells")}
        for number in range(held, count):
            cell, instance = f"cell{1000 + number // _CELL}", f"{number:08x}-0000-4000-8000-{number:012x}"
            copies = {
                "cells": {"name": cell, "region": _ELSEWHERE},
                "users": {"id": instance, "alias": f"copy-{number}"},
                "hermes_instances": {"id": instance, "user_id": instance, "machine_id": instance},
                "instance_details": {
                    "instance_id": instance,
                    "cell": cell,
                    "region": _ELSEWHERE,
                    "machine_name": f"hermes-local-{cell}-{number:012x}",
                },
            }
            for table, changes in copies.items():
                known = {key: value for key, value in changes.items() if key in first[table]}
                insert(db, table, first[table] | known)


def grow_world(world: Path, count: int) -> None:
    """Copy the first machine of a world that is down until there are that many, as ready as it."""
    store = Store(world / "machines.db")
    begun = time.time()
    with sqlite3.connect(world / "world.db") as db, store.change():
        (held,) = db.execute("SELECT count(*) FROM machines").fetchone()
        first = row_of(db, "machines")
        for number in range(held, count):
            machine = f"{number:08x}-0000-4000-8000-{number:012x}"
            document = {
                "id": machine,
                "number": 100_000 + number,
                "slug": f"m-{number:x}",
                "daemon_token": f"token-{number}",
            }
            name = f"hermes-local-cell{1000 + number // _CELL}-{number:012x}"
            insert(db, "machines", first | document | {"name": name, "status": "ready", "wanted": "running", "made": 1})
            store.put(
                Record(machine, 100_000 + number, f"m-{number:x}", f"token-{number}", None, 2, 2048, 40, True, 1, begun)
            )
    store.close()


def row_of(db: sqlite3.Connection, table: str) -> dict[str, Any]:
    """The oldest row of a table."""
    cursor = db.execute(f"SELECT * FROM {table} ORDER BY rowid LIMIT 1")  # noqa: S608 - our own tables
    return dict(zip((column[0] for column in cursor.description), cursor.fetchone(), strict=True))


def insert(db: sqlite3.Connection, table: str, row: dict[str, Any]) -> None:
    """Add a row unless there is one."""
    marks = ", ".join("?" * len(row))
    db.execute(f"INSERT OR IGNORE INTO {table} ({', '.join(row)}) VALUES ({marks})", tuple(row.values()))  # noqa: S608


async def memory(board: Board, command: Command, count: int) -> None:
    """What the server of a world of that many machines holds, once it answers."""
    await end_server(command)
    world = command.home / "local" / "world"
    await asyncio.to_thread(grow_world, world, count)
    started = time.perf_counter()
    status = (await command.ok("local", "up", "--json")).json
    seconds = time.perf_counter() - started
    resident = resident_mib(int(status["pid"]))
    disk = sum(file.stat().st_size for file in world.glob("machines.db*")) / count
    each = f"{resident * 2**20 / count:.0f} bytes a machine in memory, {disk:.0f} on the disk"
    board.add(
        f"the server of a world of {count} simulated machines",
        f"{resident:.0f} MiB",
        against=f"{each}; up in {seconds:.1f} s",
    )


def resident_mib(pid: int) -> float:
    """Resident memory of a process."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith("VmRSS"))
