"""Lives in which the vendor fails at each command in turn: it ends honestly, and then the same finishes it.

A cell's is provision, a row added, a machine replaced, a machine changed, refresh, terminate, destroy; an agent's is
everything that happens to its machine. What went wrong ends its world: the rest of that life goes on in a new one.
"""

import re
import sqlite3
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import httpx

from hermesops.errors import (
    PartlyDoneError,
    RefusedError,
    UnavailableError,
    UnknownOutcomeError,
)
from hermesops.localcloud.faults.kinds import FaultKind
from tests.support.real.commands import loaded
from tests.support.real.commands.command import Command, Ran
from tests.support.real.commands.forked import Forked
from tests.support.worlds.local.left_worlds import remember_world
from tests.support.worlds.local.traces import traces

_UNMET = ("webhook", "backup", "image", "date")
KINDS = [kind for kind in FaultKind if not kind.startswith(_UNMET)]
"""Those that a command of a cell's life can meet: none of them takes an image or a backup, or hears of events."""

KINDS_OF_AGENTS = [kind for kind in FaultKind if not kind.startswith(("webhook", "backup", "date"))]
"""Those that a command of an agent's life can meet: its backups are not the vendor's."""

HONEST = {e.exit_code for e in (RefusedError, UnavailableError, UnknownOutcomeError, PartlyDoneError)}
"""What a command may end with that could not do it."""

_OWN = re.compile(r"hermes-local-cell\d+-[0-9a-f]{12}|[0-9a-f]{8}-[0-9a-f-]{27}|u[0-9a-f]{12}|req_\w+")
_ROWS = """
SELECT coalesce(alias, users.id), machine_name, status FROM hermes_instances
JOIN users ON users.id = user_id JOIN instance_details ON instance_id = hermes_instances.id WHERE status != 'terminated'
"""
_WANTED = """
SELECT machine_name FROM instance_details JOIN hermes_instances ON id = instance_id
WHERE machine_wanted AND status != 'terminated' UNION ALL SELECT name FROM unassigned_machines WHERE wanted
"""
_OPEN = "SELECT kind, subject, step FROM operations WHERE status IN ('pending', 'running')"
_PLUGIN = "tests.support.vendor.impatient_plugin"


@dataclass(frozen=True)
class Trial:
    """One command under one fault.

    Attributes:
        times: How often the fault was to strike.
        struck: How often it did. Those of orders that sell nothing are asked for, too, and then strike nobody.
        code: What the command ended with.
        said: Its error and hint, without names of this life.
        commands: How many more it took to finish what it began.
        wrong: What is not as it should be; empty when all is well.
    """

    kind: FaultKind
    act: str
    times: int
    struck: int = 0
    code: int = 0
    said: str = ""
    commands: int = 0
    seconds: float = 0.0
    wrong: str = ""


@dataclass
class World:
    """One simulated world and what lives in it.

    Attributes:
        orders: How often each machine should have been made by now.
    """

    run: Forked
    http: httpx.Client
    user: str
    other: str
    orders: Counter[str]

    # Looks

    def rows(self) -> dict[str, tuple[str, str]]:
        """Machine and status of each living instance, by user: read beside the program, as the vendor is."""
        return {user: (machine, status) for user, machine, status in self._read(_ROWS)}

    def machine_of(self, user: str) -> str:
        return self.rows()[user][0]

    def wrongs(self) -> Iterator[str]:
        """What is not one machine for each row, wanted and had, made once."""
        rows = self.rows()
        is_coming = rows.get(self.other, ("", ""))[1] == "provisioning"  # left to workers that there are not
        names = sorted(machine for (machine,) in self._read(_WANTED))
        had = sorted(row["name"] for row in self.http.get("/api/v1/machines").raise_for_status().json()["machines"])
        if had != names:
            yield f"machines {had}, rows {names}"
        for finding in self.run.ok("fleet", "drift", "--json").json["findings"]:
            if not (is_coming and finding["subject"] == self.other):
                yield f"drift: {finding['kind']} {finding['subject']}: {finding['seen']}"
        if rows and (preview := self.run.run("stack", "preview", "--all", "--exit-code")).exit_code:
            yield f"not empty: {preview}"
        for kind, subject, step in self._read(_OPEN):
            if not (is_coming and kind == "provision"):
                yield f"under way: {kind} {subject} {step}"
        log = (self.run.command.home / "local" / "world" / "server.log").read_text()
        counts = Counter(re.findall(r"machine_step +machine=(hermes-local-cell\S+) +step=create", log))
        if doubled := {name: count for name, count in counts.items() if count > self.orders.get(name, 1)}:
            yield f"made more than once: {doubled}"

    def _read(self, query: str) -> list[Any]:
        with closing(sqlite3.connect(self.run.command.home / "local" / "registry.db")) as registry:
            return registry.execute(query).fetchall()

    # What acts need before them

    def provision(self) -> None:
        """The user's agent."""
        self.run.ok("provision", self.user, "--plan", "light")

    def add_row(self) -> None:
        """A user whose machine nobody has made yet."""
        self.run.ok("provision", self.other, "--plan", "light", "--no-wait")

    def move_row(self) -> None:
        """Have the row say another region, which takes another machine."""
        name = self.machine_of(self.other)
        self._edit_row(name, "region", "nbg1")
        self.orders[name] = 2

    def enlarge_row(self) -> None:
        """Have the row say another size, which the machine can be given."""
        self.run.ok("provision", self.other, "--plan", "light")
        self._edit_row(self.machine_of(self.user), "server_type", "basic")

    def _edit_row(self, machine: str, column: str, value: str) -> None:
        """Edit the registry behind its back: no command changes what a machine that is had was ordered as."""
        with closing(sqlite3.connect(self.run.command.home / "local" / "registry.db")) as registry:
            registry.execute(f"UPDATE instance_details SET {column} = ? WHERE machine_name = ?", (value, machine))  # noqa: S608 - columns of our own
            registry.commit()

    def finish_other(self) -> None:
        self.run.ok("instance", "terminate", self.other, "--yes", "--reason", "test")


def _nothing(world: World) -> None:
    del world


@dataclass(frozen=True)
class Act:
    """A command that is tried.

    Attributes:
        words: The command; ``USER`` and ``MACHINE`` stand for the user, and the other's machine.
        before: Brings about what it needs.
    """

    name: str
    words: tuple[str, ...]
    before: Callable[[World], None] = _nothing


_ASKED = ("--reason", "test")
ACTS = (
    Act("provision", ("provision", "USER", "--plan", "light")),
    Act("add", ("stack", "up", "cell1"), World.add_row),
    Act("replace", ("stack", "up", "cell1", "--destroy", "MACHINE"), World.move_row),
    Act("change", ("stack", "up", "cell1"), World.enlarge_row),
    Act("refresh", ("stack", "refresh", "cell1")),
    Act("terminate", ("instance", "terminate", "USER", "--yes", *_ASKED)),
    Act("destroy", ("stack", "destroy", "cell1", "--yes"), World.finish_other),
)
"""The life of a cell."""

AGENTS_ACTS = (
    Act("resize", ("instance", "resize", "USER", "--plan", "heavy", *_ASKED), World.provision),
    Act("suspend", ("instance", "suspend", "USER", *_ASKED)),
    Act("resume", ("instance", "resume", "USER", *_ASKED)),
    Act("give back", ("instance", "suspend", "USER", "--machine", "removed", *_ASKED)),
    Act("resume anew", ("instance", "resume", "USER", *_ASKED)),
    Act("move", ("instance", "move", "USER", "--region", "nbg1", *_ASKED)),
    Act("snapshot", ("snapshot", "create", "USER", *_ASKED)),
    Act("back up", ("backup", "create", "USER")),
    Act("drill", ("drill", "restore", "USER")),
    Act("restore anew", ("backup", "restore", "USER", "--onto-new-machine", "--yes", *_ASKED)),
    Act("terminate", ("instance", "terminate", "USER", "--yes", *_ASKED)),
)
"""The life of an agent."""


def tried(home: Path, lives: Sequence[tuple[FaultKind, int]], acts: Sequence[Act]) -> list[Trial]:
    """Live these lives one after the other.

    Args:
        home: A folder for worlds.
        lives: Of each, the fault and how often it strikes at each act.
        acts: What each consists of.
    """
    loaded.load()
    trials: list[Trial] = []
    with ExitStack() as open_one:
        world = open_one.enter_context(_opened(home))
        for kind, times in lives:
            world.user, world.other = (f"u{uuid.uuid4().hex[:12]}" for _ in range(2))
            for number, act in enumerate(acts):
                trials.append(_strike(world, act, kind, times))
                if trials[-1].wrong:
                    open_one.close()
                    world = open_one.enter_context(_opened(home))
                    for done in acts[: number + 1]:
                        _happen(world, done)
    return trials


def tried_side_by_side(
    folder: Path, lives: Sequence[tuple[FaultKind, int]], acts: Sequence[Act] = ACTS, *, at_once: int
) -> list[Trial]:
    """Live lives in several worlds, each of a process of its own: who forks must have no threads."""
    shares = [(folder / str(number), lives[number::at_once], acts) for number in range(at_once)]
    with get_context("spawn").Pool(at_once, maxtasksperchild=1) as pool:
        return [trial for share in pool.starmap(tried, shares) for trial in share]


def _strike(world: World, act: Act, kind: FaultKind, times: int) -> Trial:
    act.before(world)
    words = _words(world, act)
    order = {"kind": kind, "times": times, **({"seconds": 1} if kind.seconds else {})}
    world.http.post("/local/faults", json=order).raise_for_status()
    ran = world.run.run(*words)
    left = sum(row["times"] for row in world.http.get("/local/faults").json()["faults"])
    world.http.delete("/local/faults").raise_for_status()
    wrong = [*dishonesty(ran)]
    commands = 0
    if ran.exit_code != 0:
        commands = 1
        again = world.run.run(*words)
        if again.exit_code != 0:
            wrong.append(f"not finished: {again} after {ran}")
    wrong += world.wrongs()
    lines = " ".join(line for line in ran.stderr.splitlines() if line.startswith(("error: ", "hint: ")))
    lines = _OWN.sub("…", lines)
    struck = times - left
    return Trial(kind, act.name, times, struck, ran.exit_code, lines, commands, ran.seconds, "; ".join(wrong))


def _happen(world: World, act: Act) -> None:
    act.before(world)
    world.run.ok(*_words(world, act))


def dishonesty(ran: Ran) -> Iterator[str]:
    """What a command said that it should not have, or left unsaid."""
    if ran.exit_code != 0 and ran.exit_code not in HONEST:
        yield f"ended with {ran.exit_code}: {ran}"
    if "Traceback" in ran.stderr:
        yield f"traceback: {ran}"
    errors = [line for line in ran.stderr.splitlines() if line.startswith("error: ")]
    if len(errors) != (ran.exit_code != 0):
        yield f"{len(errors)} errors told: {ran}"
    if ran.exit_code != 0 and "\nhint: " not in ran.stderr:
        yield f"no next command: {ran}"


def _words(world: World, act: Act) -> list[str]:
    given: Mapping[str, Callable[[], str]] = {
        "USER": lambda: world.user,
        "MACHINE": lambda: world.machine_of(world.other),
    }
    return [given[word]() if word in given else word for word in act.words]


@contextmanager
def _opened(home: Path) -> Iterator[World]:
    """A new world with an image, gone afterwards."""
    folder = home / uuid.uuid4().hex[:8]
    folder.mkdir(parents=True)
    run = Forked(Command(folder, {"HERMESOPS_LOCAL_DRIVER": "sim"}), _PLUGIN)
    place = folder / "local" / "world"
    remember_world(place)
    try:
        run.ok("local", "up")
        run.ok("image", "build")
        status = run.ok("local", "status", "--json").json
        headers = {"Authorization": f"Bearer {(place / 'api.key').read_text().strip()}"}
        with httpx.Client(base_url=status["api_url"], headers=headers, trust_env=False, timeout=60) as http:
            yield World(run, http, f"u{uuid.uuid4().hex[:12]}", f"u{uuid.uuid4().hex[:12]}", Counter())
    finally:
        run.run("local", "down", "--purge", "--yes")
    left = traces(place)
    assert not left, left
