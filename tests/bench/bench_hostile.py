"""What agents that somebody has taken over cost the others: the same commands, without any and with five of 20.

All commands are run one after the other with every agent well, and then so in each mood, in the same run. Counted is
when the last of the others was done, where rows tell, and the whole command.
A mood may cost the others a fifth at most.
"""

import asyncio
import shutil
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.table import Table

from hermesops.base.waiting import Pending, until
from hermesops.model.access.token import LONGEST_TOKEN_LIFE
from tests.bench.figures import Board, report
from tests.support.hostile.fleet import QUICK, HostileFleet, hostile_fleet
from tests.support.real.commands.command import Ran
from tests.support.releases.simulated import built

MOODS = ("drips_body", "bomb", "escapes", "huge_counts", "root: 1e400", "root: 20 MB", "root: slow")
"""One of each class."""

GOOD, BAD = 15, 5
ALLOWED = 1.2
"""How much longer the others may take."""

_SOAK = ("--soak", "30s", "--max-unavailable", "20%")
_TARGETS = """
SELECT alias, COALESCE(json_extract(progress, '$.confirmed_at'), rollout_targets.updated_at) FROM rollout_targets
JOIN hermes_instances ON hermes_instances.id = rollout_targets.instance_id JOIN users ON users.id = user_id
WHERE rollout_id = (SELECT id FROM rollouts ORDER BY created_at DESC LIMIT 1)
"""
_BACKUPS = """
SELECT alias, at FROM backups JOIN hermes_instances ON hermes_instances.id = backups.instance_id
JOIN users ON users.id = user_id
"""
_TOKENS = f"""
SELECT alias, strftime('%Y-%m-%d %H:%M:%f', expires_at, '-{LONGEST_TOKEN_LIFE.total_seconds():.0f} seconds')
FROM proxy_tokens JOIN hermes_instances ON vm_id = machine_id
JOIN users ON users.id = user_id
"""  # noqa: S608 - our number
_MODEL_TOKENS = """
SELECT alias, model_token_handed_at FROM instance_details
JOIN hermes_instances ON hermes_instances.id = instance_details.instance_id JOIN users ON users.id = user_id
"""

_TIMES = 3
"""How often what can be repeated is run, of which the middle one counts: most take about a second."""


@dataclass(frozen=True)
class Measured:
    """One command in one mood.

    Attributes:
        others_s: Seconds until the last of the others was done; of the whole command where no rows tell.
        total_s: Seconds of the whole command.
        told: What the operator was told of the bad ones, in one line.
    """

    others_s: float
    total_s: float
    exit_code: int
    told: str


Case = Callable[[HostileFleet, str], Awaitable[Measured]]


def _told(fleet: HostileFleet, ran: Ran) -> str:
    lines = [line.strip() for line in (ran.stdout + "\n" + ran.stderr).splitlines()]
    named = [line for line in lines if any(user in line for user in fleet.bad)]
    errors = [line for line in lines if line.startswith("error: ")]
    return (errors or named or ["-"])[-1][:160]


def words(*reports: str, rows: str = "", due: bool = False, times: int = _TIMES) -> Case:
    """A command with these words; BAD and GOOD stand for a user of either kind.

    Args:
        said: Its words.
        rows: A query for who was done when.
        due: Whether jobs have to have something to do.
        times: How often; the middle one counts.
    """

    async def run(fleet: HostileFleet, _: str) -> Measured:
        given = [{"BAD": fleet.bad[0], "GOOD": fleet.good[0]}.get(word, word) for word in reports]
        measured = []
        for _time in range(times):
            if due:
                fleet.make_all_due()
            measured.append(await _timed(fleet, given, rows))
        return sorted(measured, key=lambda measurement: measurement.others_s)[times // 2]

    return run


def once(*reports: str) -> Case:
    """As ``words``, for what cannot be done twice."""
    return words(*reports, times=1)


async def _timed(fleet: HostileFleet, given: Sequence[str], rows: str) -> Measured:
    began = datetime.now(UTC)
    ran = await fleet.world.run(*given)
    done = fleet.last_of(rows) if rows else None
    others_s = (done - began).total_seconds() if done and done > began else ran.seconds
    return Measured(others_s, ran.seconds, ran.exit_code, _told(fleet, ran))


async def rollout(fleet: HostileFleet, mood: str) -> Measured:
    """A rollout to all, in three stages."""
    release = await built(fleet.world, f"r{time.monotonic_ns()}")
    measured = await _timed(fleet, ["rollout", "start", release, "--all", *QUICK, *_SOAK], _TARGETS)
    del mood
    return measured


async def rollback(fleet: HostileFleet, mood: str) -> Measured:
    """The last rollout taken back."""
    del mood
    rollout_status = (await fleet.world.ok("rollout", "status", "--json")).json
    return await _timed(
        fleet, ["rollback", "--rollout", rollout_status["rollout"]["id"], "--yes", "--reason", "bench"], _TARGETS
    )


async def stopped(fleet: HostileFleet, word: str) -> Measured:
    """A rollout that is under way is told to pause or to end, until its process knows."""
    release = await built(fleet.world, f"r{time.monotonic_ns()}")
    process = await fleet.world.start("rollout", "start", release, "--all", *QUICK, *_SOAK)
    ending = asyncio.create_task(process.communicate())

    async def has_begun() -> bool | Pending[bool]:
        ran = await fleet.world.run("rollout", "status", "--json")
        report = ran.json if ran.exit_code == 0 else {}
        is_it = report.get("rollout", {}).get("release") == release
        return (is_it and report["progress"]["touched"] > 0) or Pending("nobody is touched yet")

    await until(has_begun, what="the first that is touched", timeout_s=300, every_s=0.2)
    began = time.monotonic()
    ran = await fleet.world.run("rollout", word, "--reason", "bench")
    if word == "pause":
        await fleet.world.run("rollout", "abort", "--reason", "bench")
    else:
        await ending
    took_s = ran.seconds if word == "pause" else time.monotonic() - began
    await asyncio.wait_for(ending, 300)
    return Measured(took_s, ran.seconds, ran.exit_code, _told(fleet, ran))


def stopping(word: str) -> Case:
    """``rollout pause`` or ``rollout abort`` of one that is under way."""
    return lambda fleet, _: stopped(fleet, word)


def of_one_taken_over(*reports: str, before: Sequence[str] = ()) -> Case:
    """A command about an agent that is somebody else's from when it came; BAD stands for its user.

    Args:
        said: Its words.
        before: The words of what is done to it first.
    """

    async def run(fleet: HostileFleet, mood: str) -> Measured:
        user = f"taken-{time.monotonic_ns()}"
        await fleet.world.ok("provision", user, "--plan", "light")
        await fleet.learn_machines()
        alone = replace(fleet, bad=(user,))
        async with alone.in_moods(mood) if mood else nullcontext():
            if before:
                await fleet.world.ok(*_about(user, before))
            measured = await _timed(alone, _about(user, reports), "")
        await fleet.world.run("instance", "terminate", user, "--yes", "--reason", "bench")
        return measured

    return run


def _about(user: str, reports: Sequence[str]) -> list[str]:
    return [user if word == "BAD" else word for word in reports]


async def pool(fleet: HostileFleet, mood: str) -> Measured:
    """A pool filled in the cell where the bad ones are, and emptied."""
    del mood
    pooled = replace(fleet, world=fleet.world.with_variables(HERMESOPS_POOL_SIZE="light=2"))
    measured = await _timed(pooled, ["job", "run", "pools"], "")
    await fleet.world.run("pool", "drain", "--all", "--yes", "--reason", "bench")
    return measured


async def rebuild(fleet: HostileFleet, mood: str) -> Measured:
    """What a lost registry would be made of; the registry and its copies are away meanwhile."""
    del mood
    folder = fleet.world.home / "local"
    away = folder / "away"
    away.mkdir()
    lost = [*folder.glob("registry.db*"), *folder.glob("registry-copies")]
    for file in lost:
        file.rename(away / file.name)
    try:
        return await _timed(fleet, ["registry", "rebuild", "--dry-run"], "")
    finally:
        for file in folder.glob("registry.db*"):
            file.unlink()
        for file in lost:
            (away / file.name).rename(file)
        shutil.rmtree(away)


CASES: dict[str, Case] = {
    "instance list": words("instance", "list"),
    "instance show, a good one": words("instance", "show", "GOOD"),
    "instance show, a bad one": words("instance", "show", "BAD"),
    "fleet status --live": words("fleet", "status", "--live"),
    "fleet drift --deep": words("fleet", "drift", "--deep", times=1),
    "job run tokens": words("job", "run", "tokens", rows=_TOKENS, due=True),
    "job run backups": words("job", "run", "backups", rows=_BACKUPS, due=True, times=1),
    "backup create, a good one": words("backup", "create", "GOOD"),
    "exec, a good one": words("instance", "exec", "GOOD", "--reason", "bench", "--", "true"),
    "exec, a bad one": words("instance", "exec", "BAD", "--reason", "bench", "--", "true"),
    "logs, a bad one": words("instance", "logs", "BAD"),
    "restart, a good one": words("instance", "restart", "GOOD"),
    "restart, a bad one": once("instance", "restart", "BAD"),
    "suspend, a good one": once("instance", "suspend", "GOOD", "--reason", "bench"),
    "resume, a good one": once("instance", "resume", "GOOD", "--reason", "bench"),
    "move, a good one": once("instance", "move", "GOOD", "--region", "nbg1", "--reason", "bench"),
    "move back": once("instance", "move", "GOOD", "--region", "hel1", "--reason", "bench"),
    "provision, a new one": once("provision", "newcomer", "--plan", "light"),
    "terminate the new one": once("instance", "terminate", "newcomer", "--yes", "--reason", "bench"),
    "suspend, a bad one": of_one_taken_over("instance", "suspend", "BAD", "--reason", "bench"),
    "resume, a bad one": of_one_taken_over(
        "instance", "resume", "BAD", "--reason", "bench", before=("instance", "suspend", "BAD", "--reason", "bench")
    ),
    "move, a bad one": of_one_taken_over("instance", "move", "BAD", "--region", "nbg1", "--reason", "bench"),
    "terminate, a bad one": of_one_taken_over("instance", "terminate", "BAD", "--yes", "--reason", "bench"),
    "job run model-tokens": words("job", "run", "model-tokens", rows=_MODEL_TOKENS, due=True),
    "identity renew --all": words("identity", "renew", "--all"),
    "job run lifecycle": words("job", "run", "lifecycle", "--yes"),
    "job run pools": pool,
    "registry rebuild --dry-run": rebuild,
    "rollout start, 5 %, 25 %, 100 %": rollout,
    "rollback --rollout": rollback,
    "rollout pause": stopping("pause"),
    "rollout abort": stopping("abort"),
}


def measure(board: Board, folder: Path, *, moods: Sequence[str] = MOODS, cases: Sequence[str] = tuple(CASES)) -> None:
    """Add the table of commands and moods."""
    asyncio.run(_measure(board, folder, moods, cases))


async def _measure(board: Board, folder: Path, moods: Sequence[str], cases: Sequence[str]) -> None:
    table = Table("command", "mood", "without", "with", "ratio", "total", "exit", "what is told of the five")
    over: list[str] = []
    async with hostile_fleet(folder / "home", good=GOOD, bad=BAD) as fleet:
        without = {name: await _in_mood(fleet, name, "") for name in cases}
        for mood in moods:
            for name in cases:
                usual, hostile = without[name], await _in_mood(fleet, name, mood)
                ratio = hostile.others_s / usual.others_s
                about_bad = "bad" in name
                if ratio > ALLOWED and not about_bad:
                    over.append(f"{name} x {mood}: {ratio:.2f}")
                row = (name, mood, f"{usual.others_s:.1f} s", f"{hostile.others_s:.1f} s", f"{ratio:.2f}")
                table.add_row(*row, f"{hostile.total_s:.1f} s", str(hostile.exit_code), ascii(hostile.told)[1:-1])
                report(f"    {' | '.join(row)} | {hostile.total_s:.1f} s | {hostile.exit_code} | {hostile.told!a}")
    Console(width=220).print(table)
    pairs = len(moods) * len(cases)
    board.add(
        f"five hostile of {GOOD + BAD}: pairs of command and mood where the others take more than {ALLOWED:g} times",
        f"{len(over)} of {pairs}",
        target="0",
        against="the same command in the same run, without hostile ones; " + "; ".join(over),
    )


async def _in_mood(fleet: HostileFleet, name: str, mood: str) -> Measured:
    async with fleet.in_moods(mood) if mood else nullcontext():
        return await CASES[name](fleet, mood)
