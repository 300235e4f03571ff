"""A user's life, interrupted everywhere: at every step that is told of and at random moments, in a real local world.

Each life is a ``provision`` that is ended, the same command again, a ``terminate`` that is ended, the same again.
"""

import asyncio
import random
import signal
import time
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass
from itertools import zip_longest

import pytest
from rich.console import Console
from rich.table import Table

from tests.support.real.commands.command import Command, Ran
from tests.support.worlds.local.kept import kept_or_new_world

pytestmark = [pytest.mark.machines, pytest.mark.timeout(3600)]

RANDOM_KILLS = 25
SEED = 20260101
AT_ONCE = 3
LEASE_RUNS_OUT_S = 16.0


@dataclass(frozen=True)
class End:
    """How a command is ended.

    Attributes:
        at: What it says when it is ended; empty for a moment of its own.
        after_s: Seconds after its start, where ``at`` is empty.
    """

    by: signal.Signals
    at: str = ""
    after_s: float = 0.0

    def __str__(self) -> str:
        return f"{self.by.name} {f'at “{self.at}”' if self.at else f'after {self.after_s:.2f} s'}"


@dataclass(frozen=True)
class Told:
    """A row of the table."""

    command: str
    end: End
    code: int
    left: str
    ended: str
    is_right: bool


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with kept_or_new_world(lambda: tmp_path_factory.mktemp("soak")) as command:
        yield command


async def test_whatever_ends_it_the_same_command_finishes_it(world: Command) -> None:
    provision, terminate = await _undisturbed(world)
    chance = random.Random(SEED)  # noqa: S311 - moments, no secrets
    lives = zip_longest(
        _ends(provision, chance, RANDOM_KILLS - RANDOM_KILLS // 2), _ends(terminate, chance, RANDOM_KILLS // 2)
    )
    room = asyncio.Semaphore(AT_ONCE)
    records: list[Told] = []
    try:
        await asyncio.gather(*(_life(world, room, records, *ends) for ends in lives))
    finally:
        _show(records)
    assert [row for row in records if not row.is_right] == []
    assert await world.machines() == [], "an orphan"
    assert _living(await _rows(world)) == []


async def _undisturbed(world: Command) -> tuple[Ran, Ran]:
    user = _name()
    return await world.ok(*_provision(user)), await world.ok(*_terminate(user))


def _ends(undisturbed: Ran, chance: random.Random, count: int) -> list[End]:
    """Both signals at every line that was told, by its first words, then SIGKILL at random moments."""
    lines = dict.fromkeys(" ".join(line.split()[:2]) for line in undisturbed.stderr.splitlines())
    assert lines, f"nothing was told: {undisturbed}"
    ends = [End(by, at=line) for line in lines for by in (signal.SIGKILL, signal.SIGINT)]
    timestamps = (chance.uniform(0, undisturbed.seconds) for _ in range(count))
    return ends + [End(signal.SIGKILL, after_s=timestamp) for timestamp in timestamps]


async def _life(
    world: Command, room: asyncio.Semaphore, records: list[Told], birth: End | None, death: End | None
) -> None:
    user = _name()
    async with room:
        if birth:
            code = await _interrupted(world, birth, *_provision(user))
            left = await _left(world, user)
            ended = await _again(world, birth, *_provision(user))
            now = await _left(world, user)
            is_right = ended.exit_code == 0 and now == "running, ready"
            records.append(Told("provision", birth, code, left, f"exit {ended.exit_code}: {now}", is_right))
        else:
            await world.ok(*_provision(user))
        if death:
            code = await _interrupted(world, death, *_terminate(user))
            left = await _left(world, user)
            ended = await _again(world, death, *_terminate(user))
            now = await _left(world, user)
            is_right = ended.exit_code == 0 and now == "no row, no machine"
            records.append(Told("terminate", death, code, left, f"exit {ended.exit_code}: {now}", is_right))
        else:
            await world.ok(*_terminate(user))


async def _interrupted(world: Command, end: End, *arguments: str) -> int:
    if end.at:
        return await world.killed_at(end.at, *arguments, by=end.by)
    return await world.killed_after(end.after_s, *arguments, by=end.by)


async def _again(world: Command, end: End, *arguments: str) -> Ran:
    """The same command until it is not refused for the lease of the dead one; Ctrl-C gives it back at once."""
    killed = time.monotonic()
    while True:
        ran = await world.run(*arguments)
        waits_for_lease = ran.exit_code == 3 and end.by is signal.SIGKILL
        if not waits_for_lease or time.monotonic() - killed > 4 * LEASE_RUNS_OUT_S:
            return ran
        await asyncio.sleep(max(1.0, LEASE_RUNS_OUT_S - (time.monotonic() - killed)))  # noqa: TID251 - for the lease


async def _left(world: Command, user: str) -> str:
    """What there is of a user: the status of the row, and of the machine; more of one than one is told too."""
    rows = [row for row in await _rows(world) if row["user"] == user]
    names = {row["machine_name"] for row in rows}
    machines = [machine for machine in await world.machines() if machine["name"] in names]
    return f"{_statuses(_living(rows)) or 'no row'}, {_statuses(machines) or 'no machine'}"


def _living(rows: list[dict[str, str]]) -> list[dict[str, str]]:
    return [row for row in rows if row["status"] != "terminated"]


def _statuses(rows: list[dict[str, str]]) -> str:
    return "+".join(row["status"] for row in rows)


async def _rows(world: Command) -> list[dict[str, str]]:
    return list((await world.ok("instance", "list", "--all", "--json")).json["instances"])


def _show(records: list[Told]) -> None:
    table = Table("command", "ended by", "exit", "what was left", "the same command again", title=f"seed {SEED}")
    for row in records:
        table.add_row(
            row.command, str(row.end), str(row.code), row.left, row.ended, style="" if row.is_right else "red"
        )
    Console(width=150).print(table)


def _provision(user: str) -> tuple[str, ...]:
    return "provision", user, "--plan", "light"


def _terminate(user: str) -> tuple[str, ...]:
    return "instance", "terminate", user, "--yes"


def _name() -> str:
    return f"u{uuid.uuid4().hex[:8]}"
