"""Operators at two computers who type commands at random, are killed at random, and finish what was left.

Whatever happens on the way, ``contradictions`` names what must not be so afterwards.
"""

import asyncio
import random
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from hermesops.base import waiting
from hermesops.errors import UnavailableError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.operation import LEASE_S
from tests.support.crash.death import KILLED
from tests.support.fleets.two_computers import TwoComputers
from tests.support.real.commands.command import Command, Ran

MODELS = ("gpt-4o", "claude-haiku", "gemini-flash")
_ROOT = Path(__file__).resolve().parents[3]
_KNOWN_ENDS = {0, 2, 3, 4, 5, KILLED}
"""Exit codes of what may happen: the other one was first, a server is away. All others are faults."""

_PARTLY_DONE = 6
_WRITES = 60
"""A command has about so many writes at most."""

_KILLED_SHARE = 0.35
_AWAKE: Mapping[str, Callable[[str], tuple[str, ...]]] = {
    InstanceStatus.PROVISIONING: lambda user: ("provision", user, "--plan", "light"),
    InstanceStatus.SUSPENDED: lambda user: ("instance", "resume", user, "--reason", "crowd"),
}
"""What brings an agent to life that does not live, by its status."""

_ROUNDS = 12
_AT_ONCE = 3


@dataclass(frozen=True)
class Size:
    """How much happens.

    Attributes:
        commands: That are run, at least.
        kills: Of them killed, at least.
        restarts: Of the database, and as many of the vendor.
        users: Whose agents they are about.
        operators: At each computer at the same time.
    """

    commands: int
    kills: int
    restarts: int
    users: int
    operators: int


class Crowd:
    """What operators at two computers do to one fleet.

    Args:
        shared: The computers.
        size: How much of it.
        seed: The same seed types the same commands, though not at the same moments.
        folder: For counters of writes.
    """

    def __init__(self, shared: TwoComputers, size: Size, seed: int, folder: Path) -> None:
        self.told: list[Ran] = []
        self.restarts = 0
        self._shared = shared
        self._size = size
        self._seed = seed
        self._folder = folder
        self._users = [f"user{number}" for number in range(size.users)]
        self._registry = shared.app.registry

    @property
    def kills(self) -> int:
        """Commands that were killed."""
        return sum(ran.exit_code == KILLED for ran in self.told)

    async def work(self) -> None:
        """Let them work until enough was done, killed and restarted."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._disturb())
            for number, computer in enumerate(self._shared.computers):
                for operator in range(self._size.operators):
                    tasks.create_task(self._operate(computer, f"{self._seed}/{number}/{operator}"))

    @property
    def _is_enough(self) -> bool:
        size = self._size
        done = len(self.told) >= size.commands and self.kills >= size.kills and self.restarts >= 2 * size.restarts
        return done or len(self.told) >= 5 * size.commands

    async def _operate(self, computer: Command, seed: str) -> None:
        chance = random.Random(seed)  # noqa: S311 - choices, no secrets
        while not self._is_enough:
            words = self._words(chance)
            if chance.random() > _KILLED_SHARE:
                ran = await computer.run(*words)
            elif chance.random() > 0.5:
                code = await computer.killed_after(chance.uniform(0.8, 5), *words)
                ran = Ran(words, code, "", "", 0)
            else:
                ran = await self._dying(computer, chance.randint(1, _WRITES), words)
            self.told.append(ran)

    async def _dying(self, computer: Command, at: int, words: Sequence[str]) -> Ran:
        """Run a command on a computer that goes off at that write, the plugin with it."""
        counter = self._folder / f"writes-{random.getrandbits(64):x}"
        python = (
            sys.executable,
            "-m",
            "tests.support.crash.programs.dying_command",
            str(counter),
            str(at),
            str(LEASE_S),
        )
        *host, _installed = computer.program
        mortal = replace(computer.with_variables(PYTHONPATH=str(_ROOT)), program=(*host, *python))
        return await mortal.run(*words)

    def _words(self, chance: random.Random) -> tuple[str, ...]:
        user = chance.choice(self._users)
        try:
            cells = {instance.user_alias: instance.cell for instance in self._registry.instances.list()}
        except UnavailableError:
            cells = {}  # the database is being restarted
        if user not in cells:
            return ("provision", user, "--plan", "light")
        reason = ("--reason", "crowd")
        acts: dict[tuple[str, ...], int] = {
            ("provision", user, "--plan", "light"): 1,
            ("instance", "restart", user): 3,
            ("instance", "settings", user, "--set", f"model={chance.choice(MODELS)}", *reason): 4,
            ("instance", "suspend", user, *reason): 2,
            ("instance", "suspend", user, "--machine", "removed", *reason): 1,
            ("instance", "resume", user, *reason): 3,
            ("instance", "resize", user, "--plan", chance.choice(("light", "heavy")), *reason): 1,
            ("instance", "move", user, "--region", chance.choice(("hel1", "nbg1")), *reason): 1,
            ("backup", "create", user): 2,
            ("instance", "terminate", user, "--yes", *reason): 3,
            ("stack", "up", cells[user]): 2,
            ("stack", "refresh", cells[user]): 2,
        }
        [words] = chance.choices(list(acts), list(acts.values()))
        return words

    async def _disturb(self) -> None:
        """Restart database and vendor in turns, at moments spread over the work."""
        chance = random.Random(self._seed)  # noqa: S311 - moments, no secrets
        share = self._size.commands / (2 * self._size.restarts + 1)
        for number in range(2 * self._size.restarts):
            while len(self.told) < (number + 1) * share:
                await waiting.pause(0.1)
            await waiting.pause(chance.uniform(0, 1))
            if number % 2:
                await self._shared.restart_vendor(away_s=chance.uniform(0, 2))
            else:
                await asyncio.to_thread(self._shared.database.restart)
            self.restarts += 1

    async def finish(self) -> list[Ran]:
        """Continue what is unfinished, on either computer, until nothing is; what was said on the way."""
        runs: list[Ran] = []
        for number in range(_ROUNDS):
            computer = self._shared.computers[number % len(self._shared.computers)]
            listed = (await computer.ok("operation", "list", "--json")).json["operations"]
            living = (await computer.ok("instance", "list", "--json")).json["instances"]
            under_way = {row["subject"] for row in listed}
            wanted: list[tuple[str, ...]] = [("operation", "continue", row["id"]) for row in listed]
            idle = [row for row in living if f"instance/{row['instance_id']}" not in under_way]
            wanted += [_AWAKE[row["status"]](row["user"]) for row in idle if row["status"] in _AWAKE]
            if not wanted:
                # Machines that somebody gave up on halfway are nobody's: workers give them back.
                runs.append(await computer.run("job", "run", "lifecycle", "--yes"))
                break
            runs += await self._at_once([(computer, words) for words in wanted])
        return runs

    async def contradictions(self) -> list[str]:
        """What is not as it should be once everything is finished."""
        problems = [str(ran) for ran in self.told if ran.exit_code not in _KNOWN_ENDS and not _lost_an_order(ran)]
        first, two = self._shared.computers
        looks = [
            (first, ("fleet", "drift", "--exit-code")),
            (two, ("fleet", "drift", "--exit-code")),
            (first, ("registry", "check")),
            *((computer, ("audit", "verify")) for computer in (first, two)),
            (first, ("stack", "preview", "--all", "--exit-code")),
            (two, ("stack", "refresh", "--all", "--preview", "--exit-code")),
        ]
        problems += [str(ran) for ran in await self._at_once(looks) if ran.exit_code != 0]
        living = (await first.ok("instance", "list", "--json")).json["instances"]
        open_ones = (await two.ok("operation", "list", "--json")).json["operations"]
        machines = await self._shared.vendor.machines()
        rows = Counter(row["machine_name"] for row in living)
        problems += [f"under way: {row}" for row in open_ones]
        problems += [f"{row['user']} is {row['status']}" for row in living if row["status"] != "running"]
        problems += [f"{machine}" for machine in machines if machine["status"] != "ready"]
        if Counter(machine["name"] for machine in machines) != rows:
            problems.append(f"machines {machines}, rows {rows}")
        problems += [f"{name} was ordered {count} times" for name, count in self._shared.orders().items() if count != 1]
        return problems + [str(ran) for ran in await self._changed({row["user"]: row["plan"] for row in living})]

    async def _changed(self, plans: Mapping[str, str]) -> list[Ran]:
        """Whose machine was not what their rows say: there is something left for a provision to do."""
        ran = await self._at_once(
            [(self._shared.computers[0], ("provision", user, "--plan", plan)) for user, plan in plans.items()]
        )
        return [each for each in ran if each.exit_code != 0 or each.stderr]

    async def _at_once(self, wanted: Sequence[tuple[Command, tuple[str, ...]]]) -> list[Ran]:
        room = asyncio.Semaphore(_AT_ONCE)

        async def run(computer: Command, words: tuple[str, ...]) -> Ran:
            async with room:
                return await computer.run(*words)

        return list(await asyncio.gather(*(run(computer, words) for computer, words in wanted)))


def _lost_an_order(ran: Ran) -> bool:
    """Whether a server went away in an order, after another part of the same command was done."""
    return ran.exit_code == _PARTLY_DONE and "has no clear answer" in ran.stderr
