"""Lives of users that are cut at each write, one life a write: whatever was left, the same command finishes it.

Acts on cells have a cell of their own, with something to do in it.
"""

import asyncio
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermesops.errors import UnavailableError
from tests.support.crash.death import KILLED
from tests.support.crash.kill_acts import PROVISIONING, TERMINATING, Act, Owner
from tests.support.real.commands.command import Command, Ran, forks_of

_TRIES = 40
_LEASE_S = 4.0
_NOTHING_LEFT = {2: ("no change would destroy",)}
_PREPARING = {"provision", "suspend"}


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
    owner, counter = await _prepare(world, act), folder / f"count-{act.name}"
    ended = await _dying(world.with_variables(**act.variables), counter, 0, owner.words(act.words))
    assert ended == 0, f"{act.name} uncut: exit {ended}"
    await _clean(world, act, owner)
    return counter.read_text().splitlines()


def points_of(writes: Sequence[str]) -> list[int]:
    """Where to cut so that each state of the world is left once: before each write, and after the last.

    After a write and before the next the world is the same; only the dying process is another.
    """
    return [at for at, write in enumerate(writes, 1) if write.startswith("before ") or at == len(writes)]


async def cut(world: Command, act: Act, points: Sequence[int], folder: Path) -> list[Cut]:
    """Cut the command at each of these writes, and have the same command finish what was left."""
    room = asyncio.Semaphore(act.at_once)

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
    owner, counter = await _prepare(world, act), folder / f"{act.name}-{at}"
    asking = world.with_variables(**act.variables)
    code = await _dying(asking, counter, at, owner.words(act.words))
    written = counter.read_text().splitlines()
    write = written[at - 1] if len(written) >= at else "ended before"
    if code != KILLED and len(written) >= at:
        return Cut(act, at, write, f"was not cut: exit {code}")
    ended = await _again(asking, owner.words(act.words))
    wrong = "" if ended.exit_code == 0 or await _was_done(world, owner, ended) else str(ended)
    if act.check:
        checked = await world.run(*owner.words(act.check))
        wrong += "" if checked.exit_code == 0 else f" {checked}"
    machines = [machine["name"] for machine in await world.machines()]
    mine = [row["machine_name"] for row in await _rows(world) if row["user"] == owner.user]
    if len(mine) != int(act.leaves_machine) or [machines.count(name) for name in mine] != [act.keeps_machine] * len(
        mine
    ):
        wrong += f" rows {mine}, machines {machines}"
    await _clean(world, act, owner)
    return Cut(act, at, write, wrong)


async def _dying(world: Command, counter: Path, at: int, words: Sequence[str]) -> int:
    mortal = replace(world, program=forks_of("tests.support.crash.programs.dying_command"))
    return (await mortal.run(str(counter), str(at), str(_LEASE_S), *words, timeout_s=300)).exit_code


async def _again(world: Command, words: Sequence[str]) -> Ran:
    """The same command, once the dead one's lease has run out, and the machine that it left rebooting is back."""
    for _ in range(_TRIES):
        ran = await world.run(*words)
        if ran.exit_code != UnavailableError.exit_code and not (ran.exit_code == 3 and "lease" in ran.stderr):
            return ran
        await asyncio.sleep(0.5)  # noqa: TID251 - as it says
    return ran


async def _prepare(world: Command, act: Act) -> Owner:
    owner = Owner(f"u{uuid.uuid4().hex[:12]}")
    if act.before:
        # A cell for each machine, where the act is about cells.
        apart = world.with_variables(HERMESOPS_CELL_SIZE="1") if "CELL" in act.words else world
        await apart.ok(*owner.words(act.before))
        [row] = [row for row in await _rows(world) if row["user"] == owner.user]
        owner = Owner(owner.user, row["cell"], row["machine_name"], row["machine_id"] or "", row["instance_id"])
    if act.prepared:
        await act.prepared(world, owner)
    return owner


async def _clean(world: Command, act: Act, owner: Owner) -> None:
    if act.undone:
        undone = await _again(world, owner.words(act.undone))
        assert undone.exit_code == 0, str(undone)
    if act.leaves_machine:
        for words in (PROVISIONING, TERMINATING) if "--no-wait" in act.before else (TERMINATING,):
            ended = await _again(world, owner.words(words))
            assert ended.exit_code == 0, str(ended)


async def _was_done(world: Command, owner: Owner, ended: Ran) -> bool:
    """Whether the command was killed after its work was recorded as done: then there is nothing left to be named."""
    if not any(words in ended.stderr for words in _NOTHING_LEFT.get(ended.exit_code, ())):
        return False
    rows = (await world.ok("operation", "list", "--all", "--json")).json["operations"]
    about = {f"cell/{owner.cell}", f"instance/{owner.instance}"}
    return any(r["subject"] in about and r["status"] == "done" and r["kind"] not in _PREPARING for r in rows)


async def _rows(world: Command) -> list[dict[str, str]]:
    return list((await world.ok("instance", "list", "--json")).json["instances"])
