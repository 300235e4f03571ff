"""Random commands for instances, killed at random moments and repeated until they finish, in rounds.

In each round every user's instance gets one command, all at the same time. Between two rounds nothing runs, and the
world has to be exactly what ``expected_instance`` says. The seed decides commands and moments.
"""

import asyncio
import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from hermesops.base import waiting
from hermesops.errors import PartlyDoneError, RefusedError, UnavailableError
from tests.support.crash.death import KILLED
from tests.support.crash.expected_instance import Act, ExpectedInstance, Phase, acts_of
from tests.support.real.commands.command import Command, Ran
from tests.support.vendor.outside_changes import delete_behind_its_back
from tests.support.worlds.agent_memory import AgentMemory

SEED_VARIABLE, ACTS_VARIABLE, MINUTES_VARIABLE = "HERMESOPS_TEST_SEED", "HERMESOPS_TEST_ACTS", "HERMESOPS_TEST_MINUTES"
LIFE = {"HERMESOPS_GRACE_DAYS": "7", "HERMESOPS_LAST_BACKUP": "required"}
"""Environment of the commands: agents end as they do for users, after days of grace and with a backup."""

_WEIGHTS = {
    "provision again": 1,
    "restart": 1,
    "settings": 1,
    "suspend again": 1,
    "resume": 6,
    "undo": 8,
    "backup": 4,
    "terminate now": 1,
    "resize down refused": 1,
    **dict.fromkeys(("resume fulfilled", "resize fulfilled", "move fulfilled", "undo fulfilled"), 0.3),
}
_WEIGHT, _REFUSED_WEIGHT = 3, 0.3
_NO_KILL_SHARE, _OTHER_SHARE, _MOST_KILLS = 0.15, 0.25, 3
_GIVE_UP_S = 180.0
_MOST_LINES = 12
"""Lines of a command's output that a failure shows."""

_ASKS_FIRST = {
    "suspend",
    "suspend, removed",
    "resize",
    "move",
    "restore",
    "restore of a chosen backup",
    "restore onto new machine",
    "terminate",
}
"""Acts that are refused while something else is under way for the instance."""


_IN_PLACE = {"restore", "restore of a chosen backup"}
_LEAVES_GATEWAY = {"provision", "provision again", "restart", "settings", "backup"}
"""Acts that stop no gateway to copy its state: a restore in place may come in between."""

_REPEATED = {KILLED, UnavailableError.exit_code, PartlyDoneError.exit_code}
"""Exit codes after which the same command is to be repeated."""


@dataclass(frozen=True)
class Size:
    """How much happens.

    Attributes:
        acts: Commands that are finished, at least.
        users: Whose instances they are about; one command of each at the same time.
        minutes: After which no further round begins.
        pause_s: Seconds at most between a line of narration and the kill.
    """

    acts: int
    users: int
    minutes: float
    pause_s: float


@dataclass(frozen=True)
class Moment:
    """When a command is killed.

    Attributes:
        lines: Lines of narration after which it is.
        pause_s: Seconds after that line.
        is_group: Whether its children in the same process group die with it.
    """

    lines: int
    pause_s: float
    is_group: bool

    def __str__(self) -> str:
        return f"{'group' if self.is_group else 'process'} after line {self.lines} and {self.pause_s:.2f} s"


@dataclass
class Done:
    """One act and how it went.

    Attributes:
        attempts: Everything that was run for it, with what that was for.
        wrong: What is not as it has to be.
    """

    act: Act
    attempts: list[tuple[str, Ran]] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def kills(self) -> int:
        """How often it was killed."""
        return sum(ran.exit_code == KILLED for _, ran in self.attempts)

    @property
    def last(self) -> Ran | None:
        """The last run of the command itself."""
        return next((ran for _, ran in reversed(self.attempts) if ran.arguments == self.act.words), None)

    def __str__(self) -> str:
        lines = [f"{self.act.kind}: hermesops {' '.join(self.act.words)}"]
        for why, ran in self.attempts:
            lines.append(f"  {why}: {' '.join(ran.arguments)}")
            lines.append(f"    exit {ran.exit_code} after {ran.seconds:.1f} s")
            output = [*ran.stdout.splitlines(), *ran.stderr.splitlines()]
            lines += [f"    {line[:300]}" for line in output[-_MOST_LINES:]]
        return "\n".join([*lines, *(f"  WRONG {difference}" for difference in self.wrong)])


def chosen(variable: str, default: float) -> float:
    """A number that whoever runs the tests may set."""
    return float(os.environ.get(variable, default))  # noqa: TID251 - a choice of whoever runs the tests


class RandomKills:
    """Runs and kills commands of one world.

    Args:
        world: Its commands.
        memory: The way to its agents' memories.
        size: How much of it.
        seed: What decides commands and moments.
        report: Called with a line after each round.
    """

    def __init__(
        self,
        world: Command,
        memory: AgentMemory,
        size: Size,
        seed: int,
        *,
        report: Callable[[str], object] | None = None,
    ) -> None:
        self.history: list[Done] = []
        self._world = world.with_variables(**LIFE)
        self._report = report
        self._memory = memory
        self._size = size
        self._seed = seed
        self._expected = {user: ExpectedInstance(user) for user in (f"user{n}" for n in range(size.users))}
        self._round = 0

    async def run(self) -> None:
        """Work until enough was done; AssertionError names the seed, the history and what is wrong."""
        until = time.monotonic() + self._size.minutes * 60
        while len(self.history) < self._size.acts and time.monotonic() < until:
            self._round += 1
            done = await asyncio.gather(*(self._act(user) for user in self._expected))
            self.history += done
            if self._report:
                kills = sum(act.kills for act in self.history)
                self._report(f"round {self._round}: {len(self.history)} acts, {kills} kills")
            await self._teach()
            self._refuse(await self._differences())
            if any(instance.previous_machines for instance in self._expected.values()):
                await self._give_back()
        self._refuse(await self._finish())

    def show(self) -> None:
        """Print what was done, by kind."""
        table = Table("command", "acts", "kill -9", "finished", title=f"killed at random, seed {self._seed}")
        kinds = Counter(done.act.kind for done in self.history)
        for kind, count in sorted(kinds.items()):
            of = [done for done in self.history if done.act.kind == kind]
            finished = sum(not done.wrong for done in of)
            table.add_row(kind, str(count), str(sum(done.kills for done in of)), str(finished))
        whole = self.history
        table.add_section()
        sums = (len(whole), sum(done.kills for done in whole), sum(not done.wrong for done in whole))
        table.add_row("all", *map(str, sums))
        Console(width=120).print(table)

    async def _act(self, user: str) -> Done:
        before, chance = self._expected[user], self._chance(user)
        act = _choose(acts_of(before), chance)
        done = Done(act)
        world = self._world.with_variables(**act.variables)
        if act.loses_machine:
            await delete_behind_its_back(world.home / "local" / "world", (await self._row(user))["machine_id"])
        try:
            for timestamp in _moments(act, chance, self._size.pause_s):
                ran = await _killed(world, timestamp, act.words)
                done.attempts.append((f"to be killed: {timestamp}", ran))
                if ran.exit_code != KILLED:
                    break
                await self._ask_for_another(before, done, chance)
            await _finish(world, done)
        except Exception as error:  # noqa: BLE001 - what broke the driver is part of the history, too
            done.wrong.append(f"{type(error).__name__}: {error}")
        done.wrong += _wrong_end(done)
        self._expected[user] = await self._after(act)
        return done

    def _chance(self, what: str) -> random.Random:
        """Choices of this round that do not depend on how long anything took."""
        return random.Random(f"{self._seed}/{self._round}/{what}")  # noqa: S311 - choices, no secrets

    async def _after(self, act: Act) -> ExpectedInstance:
        if act.kind != "backup":
            return act.after
        listed = (await self._world.ok("backup", "list", act.after.user, "--json")).json["backups"]
        asked_for = [backup["backup"] for backup in listed if backup["why"].startswith("manual")]
        return act.after.saved_as(asked_for[0][:12]) if asked_for else act.after

    async def _ask_for_another(self, before: ExpectedInstance, done: Done, chance: random.Random) -> None:
        """Have another command refused, now and then, while the killed one's operation is unfinished."""
        # What leads to the same may be the same: who has no machine wakes by a restore onto a new one.
        kinds = _ASKS_FIRST - (_IN_PLACE if done.act.kind in _LEAVES_GATEWAY else set())
        others = [act for act in acts_of(before) if act.kind in kinds and act.after != done.act.after]
        if chance.random() > _OTHER_SHARE or not others:
            return
        other = chance.choice(others)
        instance = await self._row(before.user) if before.phase is not Phase.ABSENT else {}
        listed = (await self._world.ok("operation", "list", "--json")).json["operations"]
        if f"instance/{instance.get('instance_id')}" not in {row["subject"] for row in listed}:
            return
        ran = await self._world.with_variables(**other.variables).run(*other.words)
        done.attempts.append(("to be refused meanwhile", ran))
        if ran.exit_code != RefusedError.exit_code:
            done.wrong.append(f"{other.kind} was not refused while {done.act.kind} was unfinished")

    async def _teach(self) -> None:
        for user, expected in self._expected.items():
            is_chosen = not expected.memory or self._chance(f"teach {user}").random() < 0.5
            if expected.phase is Phase.RUNNING and is_chosen:
                word = f"taught-{self._round}-{user}"
                await self._memory.teach(user, word)
                self._expected[user] = expected.taught(word)

    async def _give_back(self) -> None:
        """Have the machines that instances left given back, killed and repeated as any other command."""
        act = Act("give back kept machines", ("job", "run", "lifecycle", "--yes"), ExpectedInstance(""), lines=2)
        done = Done(act)
        world = self._world.with_variables(HERMESOPS_PREVIOUS_DAYS="0.0000001")
        for timestamp in _moments(act, self._chance("give back"), self._size.pause_s):
            ran = await _killed(world, timestamp, act.words)
            done.attempts.append((f"to be killed: {timestamp}", ran))
        await _finish(world, done)
        done.wrong += _wrong_end(done)
        self.history.append(done)
        self._expected = {user: replace(instance, previous_machines=0) for user, instance in self._expected.items()}
        self._refuse(await self._differences())

    async def _finish(self) -> list[str]:
        """End every instance, and see that nothing of them is left at the vendor."""
        for user, expected in self._expected.items():
            if expected.phase is not Phase.ABSENT:
                await self._world.ok("instance", "terminate", user, "--now", "--yes", "--reason", "test")
                self._expected[user] = ExpectedInstance(user)
        return await self._differences()

    async def _differences(self) -> list[str]:
        """What is not as it has to be, now that no command runs."""
        differences = await asyncio.gather(
            self._rows(), self._machines(), self._checks(), *(self._memories(user) for user in self._expected)
        )
        return [difference for part in differences for difference in part]

    async def _rows(self) -> list[str]:
        listed = (await self._world.ok("cell", "list", "--json")).json["cells"]
        cells = {cell["cell"]: cell["region"] for cell in listed}
        rows = (await self._world.ok("instance", "list", "--json")).json["instances"]
        actual = {row["user"]: (row["status"], row["plan"], cells[row["cell"]]) for row in rows}
        status = {Phase.RUNNING: "running", Phase.SUSPENDED: "suspended", Phase.ENDING: "suspended"}
        present = [instance for instance in self._expected.values() if instance.phase is not Phase.ABSENT]
        expected = {instance.user: (status[instance.phase], instance.plan, instance.region) for instance in present}
        return [] if actual == expected else [f"instances are {actual}, not {expected}"]

    async def _machines(self) -> list[str]:
        rows = (await self._world.ok("instance", "list", "--json")).json["instances"]
        names = {row["machine_name"] for row in rows if self._expected[row["user"]].has_machine}
        machines = sorted(machine["name"] for machine in await self._world.machines())
        count = len(names) + sum(instance.previous_machines for instance in self._expected.values())
        is_right = len(machines) == len(set(machines)) == count and names <= set(machines)
        return [] if is_right else [f"machines are {machines}, not {sorted(names)} and {count - len(names)} kept"]

    async def _checks(self) -> list[str]:
        unfinished = (await self._world.ok("operation", "list", "--json")).json["operations"]
        findings = (await self._world.ok("fleet", "drift", "--json")).json["findings"]
        checked = await self._world.run("registry", "check")
        wrong = [f"unfinished: {row}" for row in unfinished] + [f"drift: {row}" for row in findings]
        return wrong if checked.exit_code == 0 else [*wrong, str(checked)]

    async def _memories(self, user: str) -> list[str]:
        expected = self._expected[user]
        if expected.phase is not Phase.RUNNING:
            return []
        known = await self._memory.recall(user)
        return [] if known == expected.memory else [f"{user} knows {known}, not {expected.memory}"]

    async def _row(self, user: str) -> dict[str, Any]:
        return dict((await self._world.ok("instance", "show", user, "--json")).json["instance"])

    def _refuse(self, differences: Sequence[str]) -> None:
        wrong = [*(difference for done in self.history for difference in done.wrong), *differences]
        history = "\n".join(map(str, self.history[-3 * self._size.users :]))
        assert not wrong, f"seed {self._seed}, after {len(self.history)} acts: {wrong}\n{history}"


def _choose(acts: Sequence[Act], chance: random.Random) -> Act:
    weights = [_WEIGHTS.get(act.kind, _REFUSED_WEIGHT if act.refusal else _WEIGHT) for act in acts]
    return chance.choices(acts, weights)[0]


def _moments(act: Act, chance: random.Random, pause_s: float) -> list[Moment]:
    count = 0 if chance.random() < _NO_KILL_SHARE else chance.choice((1, 1, 2, _MOST_KILLS))
    return [
        Moment(chance.randint(0, act.lines), chance.uniform(0, pause_s), is_group=chance.random() < 0.5)
        for _ in range(count)
    ]


async def _killed(world: Command, timestamp: Moment, words: Sequence[str]) -> Ran:
    """Run a command and kill it at a moment, unless it ends before."""
    began = time.monotonic()
    process = await world.start(*words)
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdin.close()
    printing = asyncio.create_task(process.stdout.read())
    narration, came = bytearray(), asyncio.Event()

    async def narrate(stderr: asyncio.StreamReader) -> None:
        if not timestamp.lines:
            came.set()
        async for line in stderr:
            narration.extend(line)
            if narration.count(b"\n") >= timestamp.lines:
                came.set()
        came.set()

    narrating = asyncio.create_task(narrate(process.stderr))
    await came.wait()
    ending = asyncio.create_task(process.wait())
    await asyncio.wait({ending}, timeout=timestamp.pause_s)
    if process.returncode is None:
        with suppress(ProcessLookupError):  # it has ended this very moment
            (os.killpg if timestamp.is_group else os.kill)(process.pid, signal.SIGKILL)
    code = await ending
    async with asyncio.timeout(_GIVE_UP_S):
        await narrating
        stdout = await printing
    return Ran(tuple(words), code, stdout.decode(), narration.decode(), time.monotonic() - began)


async def _finish(world: Command, done: Done) -> None:
    """Repeat the command until it neither asks for that nor is refused for the lease of a dead process."""
    until = time.monotonic() + _GIVE_UP_S
    while (done.last is None or _is_repeated(done.last)) and time.monotonic() < until:
        done.attempts.append(("to finish", await world.run(*done.act.words)))
        await waiting.pause(0.5)


def _is_repeated(ran: Ran) -> bool:
    return ran.exit_code in _REPEATED or (ran.exit_code == RefusedError.exit_code and "lease" in ran.stderr)


def _wrong_end(done: Done) -> list[str]:
    act, ran = done.act, done.last
    if ran is None:
        return [f"{act.kind} was not run"]
    if act.refusal:
        is_right = ran.exit_code == RefusedError.exit_code and act.refusal in ran.stderr
    else:
        is_right = ran.exit_code == 0
    return [] if is_right else [f"{act.kind} ended with exit {ran.exit_code}: {ran.stderr[-600:]}"]


def logged(folder: Path, driver: RandomKills) -> None:
    """Write the whole history into a file of that folder."""
    (folder / "history.txt").write_text("\n\n".join(map(str, driver.history)))
