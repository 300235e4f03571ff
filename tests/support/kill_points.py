"""Lives of users that are cut at each write, one life a write: whatever was left, the same command finishes it.

Acts on cells have a cell of their own, with something to do in it.
"""

import asyncio
import json
import os
import signal
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.support.behind_its_back import resize_behind_its_back
from tests.support.command import Command, Ran

AT_ONCE = 3
_TRIES = 40
_LEASE_S = 4.0
_ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Owner:
    """Whom a life is about; what stands in an act's words for it.

    Attributes:
        cell: Their machine's, once they have one.
        machine: Its name.
    """

    user: str
    cell: str = ""
    machine: str = ""
    machine_id: str = ""

    def words(self, act: Sequence[str]) -> list[str]:
        """A command about them."""
        names = {"USER": self.user, "CELL": self.cell, "MACHINE": self.machine}
        return [names.get(word, word) for word in act]


Preparation = Callable[[Command, Owner], Awaitable[None]]
"""Brings about what a command is to change."""


@dataclass(frozen=True)
class Act:
    """A command that is cut.

    Attributes:
        name: What it is called in the table.
        words: The command; ``USER``, ``CELL`` and ``MACHINE`` stand for the owner's.
        before: The command that makes the instance which it is about; none where it makes one itself.
        prepared: What else is done before it.
        leaves_machine: Whether the user has one after it.
        check: A command that finds nothing more to do afterwards.
        at_once: Lives at the same time.
    """

    name: str
    words: tuple[str, ...]
    before: tuple[str, ...] = ()
    prepared: Preparation | None = None
    leaves_machine: bool = True
    check: tuple[str, ...] = ()
    at_once: int = AT_ONCE


_PROVISION = ("provision", "USER", "--plan", "light")
_TERMINATE = ("instance", "terminate", "USER", "--yes", "--reason", "test")
PROVISION = Act("provision", _PROVISION)
TERMINATE = Act("terminate", _TERMINATE, before=_PROVISION, leaves_machine=False)
SETTINGS = Act(
    "settings", ("instance", "settings", "USER", "--set", "model=gpt-4o", "--reason", "test"), before=_PROVISION
)
RESTART = Act("restart", ("instance", "restart", "USER"), before=_PROVISION)


async def _resized(world: Command, owner: Owner) -> None:
    await resize_behind_its_back(world.home / "local" / "world", owner.machine_id)


async def _of_another_image(world: Command, owner: Owner) -> None:
    """Let the state say that the machine boots from another image than the rows say: it has to be made anew."""
    state = json.loads((await world.ok("stack", "export", owner.cell)).stdout)
    [machine] = [one for one in state["deployment"]["resources"] if one["urn"].endswith(f"::{owner.machine}")]
    machine["inputs"]["image_id"] = str(uuid.uuid4())
    edited = world.home / f"{owner.machine}.json"
    edited.write_text(json.dumps(state))
    await world.ok("stack", "import", owner.cell, str(edited), "--yes")


async def _emptied(world: Command, owner: Owner) -> None:
    await world.ok(*owner.words(_TERMINATE))


_PREVIEW = ("stack", "preview", "CELL", "--exit-code")
STACK_UP = Act("stack up", ("stack", "up", "CELL"), before=(*_PROVISION, "--no-wait"), check=_PREVIEW)
STACK_REPLACE = Act(
    "stack up, anew",
    ("stack", "up", "CELL", "--destroy", "MACHINE"),
    before=_PROVISION,
    prepared=_of_another_image,
    check=_PREVIEW,
)
STACK_REFRESH = Act(
    "stack refresh",
    ("stack", "refresh", "CELL"),
    before=_PROVISION,
    prepared=_resized,
    check=("stack", "refresh", "CELL", "--preview", "--exit-code"),
)
STACK_DESTROY = Act(
    "stack destroy",
    ("stack", "destroy", "CELL", "--yes"),
    before=_PROVISION,
    prepared=_emptied,
    leaves_machine=False,
    at_once=1,  # the next life's user would move into the empty cell
)
ACTS = (PROVISION, TERMINATE, SETTINGS, RESTART, STACK_UP, STACK_REPLACE, STACK_REFRESH, STACK_DESTROY)


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
    ended = await _dying(world, counter, 0, owner.words(act.words))
    assert ended == 0, f"{act.name} uncut: exit {ended}"
    await _clean(world, act, owner)
    return counter.read_text().splitlines()


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
    code = await _dying(world, counter, at, owner.words(act.words))
    written = counter.read_text().splitlines()
    write = written[at - 1] if len(written) >= at else "ended before"
    if code != -signal.SIGKILL and len(written) >= at:
        return Cut(act, at, write, f"was not cut: exit {code}")
    ended = await _again(world, owner.words(act.words))
    wrong = "" if ended.exit_code == 0 or await _was_done(world, owner, ended) else str(ended)
    if act.check:
        checked = await world.run(*owner.words(act.check))
        wrong += "" if checked.exit_code == 0 else f" {checked}"
    machines = [machine["name"] for machine in await world.machines()]
    mine = [row["machine_name"] for row in await _rows(world) if row["user"] == owner.user]
    if len(mine) != int(act.leaves_machine) or [machines.count(name) for name in mine] != [1] * len(mine):
        wrong += f" rows {mine}, machines {machines}"
    await _clean(world, act, owner)
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


async def _prepare(world: Command, act: Act) -> Owner:
    owner = Owner(f"u{uuid.uuid4().hex[:12]}")
    if act.before:
        # A cell for each machine, where the act is about cells.
        apart = world.with_variables(HERMESOPS_CELL_SIZE="1") if "CELL" in act.words else world
        await apart.ok(*owner.words(act.before))
        [row] = [row for row in await _rows(world) if row["user"] == owner.user]
        owner = Owner(owner.user, row["cell"], row["machine_name"], row["machine_id"] or "")
    if act.prepared:
        await act.prepared(world, owner)
    return owner


async def _clean(world: Command, act: Act, owner: Owner) -> None:
    if act.leaves_machine:
        for words in (_PROVISION, _TERMINATE) if "--no-wait" in act.before else (_TERMINATE,):
            ended = await _again(world, owner.words(words))
            assert ended.exit_code == 0, str(ended)


async def _was_done(world: Command, owner: Owner, ended: Ran) -> bool:
    """Whether the command was killed after its work was recorded as done: then there is nothing left to be named."""
    if ended.exit_code != 2 or "nothing would destroy" not in ended.stderr:
        return False
    rows = (await world.ok("operation", "list", "--all", "--json")).json["operations"]
    return any(row["subject"] == f"cell/{owner.cell}" and row["status"] == "done" for row in rows)


async def _rows(world: Command) -> list[dict[str, str]]:
    return list((await world.ok("instance", "list", "--json")).json["instances"])
