"""A program that repairs a fleet as the engineer on call would: it runs what ``fleet drift`` prints, until it is clean.

It knows nothing of what differs: only the JSON of the findings, and that a refused repair may have an alternative.
"""

import asyncio
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.support.command import Command, Ran

ROUNDS = 8
ASKING = {"terminate", "remove-orphan"}
"""Verbs that ask; there is no terminal here."""


@dataclass(frozen=True)
class Repaired:
    """A finding, and what became of the commands that it came with."""

    finding: dict[str, Any]
    ran: tuple[Ran, ...]


@dataclass(frozen=True)
class Repairs:
    """What it took.

    Attributes:
        rounds: Of looking and repairing; the last look found nothing.
    """

    rounds: tuple[tuple[Repaired, ...], ...]

    @property
    def commands(self) -> list[Ran]:
        return [ran for one_round in self.rounds for repaired in one_round for ran in repaired.ran]


async def repair_all(world: Command, *, order: Callable[[dict[str, Any]], str], at_once: int = 1) -> Repairs:
    """Look and repair until nothing differs.

    Args:
        world: Where.
        order: The key by which findings are taken one after the other.
        at_once: How many are repaired side by side.

    Raises:
        AssertionError: Something differs after so many rounds; it says what and how its repairs ended.
    """
    turn = asyncio.Semaphore(at_once)
    rounds: list[tuple[Repaired, ...]] = []

    async def one(finding: dict[str, Any]) -> Repaired:
        async with turn:
            return Repaired(finding, await _repair(world, finding))

    for _ in range(ROUNDS):
        findings = sorted((await world.ok("fleet", "drift", "--json")).json["findings"], key=order)
        if not findings:
            return Repairs(tuple(rounds))
        rounds.append(tuple(await asyncio.gather(*map(one, findings))))
    left = [f"{repaired.finding}\n{'; '.join(map(str, repaired.ran))}" for repaired in rounds[-1]]
    raise AssertionError(f"not clean after {ROUNDS} rounds:\n" + "\n".join(left))


async def _repair(world: Command, finding: dict[str, Any]) -> tuple[Ran, ...]:
    ran = await _run(world, finding["repair"])
    if ran[-1].exit_code and finding["otherwise"]:
        ran += await _run(world, finding["otherwise"])
    return ran


async def _run(world: Command, commands: list[str]) -> tuple[Ran, ...]:
    """Run commands one after the other, up to the first that fails."""
    ended: tuple[Ran, ...] = ()
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "hermesops"
        ran = await world.run(*words, *(["--yes"] if ASKING & set(words) else []))
        assert "Traceback" not in ran.stderr, str(ran)
        ended += (ran,)
        if ran.exit_code:
            break
    return ended
