"""Lives of users that are cut at each write, one life a write: whatever was left, the same command finishes it."""

import asyncio
import os
import signal
import sys
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.command import Command, Ran

AT_ONCE = 3
_TRIES = 40
_LEASE_S = 2.0
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Act:
    """A command that is cut.

    Attributes:
        name: What it is called in the table.
        words: The command; ``USER`` stands for the user.
        needs_agent: Whether the user has an agent before it.
        leaves_agent: Whether the user has one after it.
    """

    name: str
    words: tuple[str, ...]
    needs_agent: bool
    leaves_agent: bool


PROVISION = Act("provision", ("provision", "USER", "--plan", "light"), needs_agent=False, leaves_agent=True)
TERMINATE = Act(
    "terminate", ("instance", "terminate", "USER", "--yes", "--reason", "test"), needs_agent=True, leaves_agent=False
)
SETTINGS = Act(
    "settings",
    ("instance", "settings", "USER", "--set", "model=gpt-4o", "--reason", "test"),
    needs_agent=True,
    leaves_agent=True,
)
RESTART = Act("restart", ("instance", "restart", "USER"), needs_agent=True, leaves_agent=True)
ACTS = (PROVISION, TERMINATE, SETTINGS, RESTART)


@dataclass(frozen=True)
class Cut:
    """What became of one life.

    Attributes:
        at: Number of the write.
        write: What was written there.
        wrong: What is not as it should be; empty when all is well.
    """

    act: Act
    at: int
    write: str
    wrong: str


async def writes_of(world: Command, act: Act, folder: Path) -> list[str]:
    """What the command writes when nothing cuts it."""
    user, counter = _name(), folder / f"count-{act.name}"
    await _prepare(world, act, user)
    ended = await _dying(world, counter, 0, _words(act, user))
    assert ended == 0, f"{act.name} uncut: exit {ended}"
    await _clean(world, act, user)
    return counter.read_text().splitlines()


async def cut(world: Command, act: Act, points: Sequence[int], folder: Path) -> list[Cut]:
    """Cut the command at each of these writes, and have the same command finish what was left."""
    room = asyncio.Semaphore(AT_ONCE)

    async def life(at: int) -> Cut:
        async with room:
            return await _life(world, act, at, folder)

    return list(await asyncio.gather(*(life(at) for at in points)))


async def check_whole(world: Command) -> str:
    """One machine for each row, nothing differs, nothing is under way; what is wrong otherwise."""
    drift = (await world.ok("fleet", "drift", "--json")).json["findings"]
    open_ones = (await world.ok("operation", "list", "--json")).json["operations"]
    machines = sorted(machine["name"] for machine in await world.machines())
    rows = sorted(row["machine_name"] for row in (await world.ok("instance", "list", "--json")).json["instances"])
    wrong = [f"drift: {drift}"] if drift else []
    wrong += [f"under way: {open_ones}"] if open_ones else []
    wrong += [f"machines {machines}, rows {rows}"] if machines != rows else []
    return "; ".join(wrong)


async def _life(world: Command, act: Act, at: int, folder: Path) -> Cut:
    user, counter = _name(), folder / f"{act.name}-{at}"
    await _prepare(world, act, user)
    code = await _dying(world, counter, at, _words(act, user))
    written = counter.read_text().splitlines()
    write = written[at - 1] if len(written) >= at else "ended before"
    if code != -signal.SIGKILL and len(written) >= at:
        return Cut(act, at, write, f"was not cut: exit {code}")
    ended = await _again(world, _words(act, user))
    wrong = "" if ended.exit_code == 0 else str(ended)
    machines = [machine["name"] for machine in await world.machines()]
    rows = (await world.ok("instance", "list", "--json")).json["instances"]
    mine = [row["machine_name"] for row in rows if row["user"] == user]
    if len(mine) != int(act.leaves_agent) or [machines.count(name) for name in mine] != [1] * len(mine):
        wrong += f" rows {mine}, machines {machines}"
    await _clean(world, act, user)
    return Cut(act, at, write, wrong)


async def _dying(world: Command, counter: Path, at: int, words: Sequence[str]) -> int:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.support.dying", str(counter), str(at), str(_LEASE_S), *words),
        env={**world.environ, "PYTHONPATH": str(_ROOT)},
        cwd=_ROOT,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(300):
            return await process.wait()
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)


async def _again(world: Command, words: Sequence[str]) -> Ran:
    """The same command, once the dead one's lease has run out."""
    for _ in range(_TRIES):
        ran = await world.run(*words)
        if ran.exit_code != 3 or "lease" not in ran.stderr:
            return ran
        await asyncio.sleep(0.5)  # noqa: TID251 - for the lease
    return ran


async def _prepare(world: Command, act: Act, user: str) -> None:
    if act.needs_agent:
        await world.ok(*_words(PROVISION, user))


async def _clean(world: Command, act: Act, user: str) -> None:
    if act.leaves_agent:
        ended = await _again(world, _words(TERMINATE, user))
        assert ended.exit_code == 0, str(ended)


def _words(act: Act, user: str) -> list[str]:
    return [user if word == "USER" else word for word in act.words]


def _name() -> str:
    return f"u{uuid.uuid4().hex[:12]}"
