"""A program that repairs a fleet as the engineer on call would: it runs what ``fleet drift`` prints, until it is clean.

It knows nothing of what differs: only the JSON of the findings, and that a refused repair may have an alternative.
"""

import asyncio
import shlex
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tests.support.real.commands.command import Command, Ran

ROUNDS = 8
ASKING = {"terminate", "remove-orphan"}
"""Verbs that ask; there is no terminal here."""


@dataclass(frozen=True)
class Repaired:
    """A finding, and what became of the commands that it came with."""

    finding: Mapping[str, Any]
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


Run = Callable[[Sequence[str]], Awaitable[Ran]]
"""Runs a command, by its words after ``hermesops``."""

Finding = Mapping[str, Any]
"""As JSON."""


@dataclass(frozen=True)
class Manner:
    """How repairs are gone about.

    Attributes:
        run: Runs their commands.
        key: By what findings are sorted.
        line: What is repaired one after the other; different lines are repaired side by side, so many at once.
        is_last: Whether a finding waits until all others of its round are done; those come one after the other.
    """

    run: Run
    key: Callable[[Finding], str] = lambda finding: f"{finding['subject']} {finding['kind']}"
    line: Callable[[Finding], str] = lambda finding: str(finding["subject"])
    is_last: Callable[[Finding], bool] = lambda _: False
    at_once: int = 3


async def repair_all(world: Command, manner: Manner) -> Repairs:
    """Look and repair until nothing differs.

    Raises:
        AssertionError: Something differs after so many rounds; it says what and how its repairs ended.
    """
    rounds: list[tuple[Repaired, ...]] = []
    for _ in range(ROUNDS):
        findings = sorted((await world.ok("fleet", "drift", "--json")).json["findings"], key=manner.key)
        if not findings:
            return Repairs(tuple(rounds))
        rounds.append(await _round(manner, findings))
    left = [f"{repaired.finding}\n{'; '.join(map(str, repaired.ran))}" for repaired in rounds[-1]]
    raise AssertionError(f"not clean after {ROUNDS} rounds:\n" + "\n".join(left))


async def _round(manner: Manner, findings: Sequence[Finding]) -> tuple[Repaired, ...]:
    """Repair each once; what became of them, in their order."""
    turn = asyncio.Semaphore(manner.at_once)
    ends: dict[int, Repaired] = {}

    async def one_after_the_other(numbers: Sequence[int]) -> None:
        async with turn:
            for number in numbers:
                ends[number] = Repaired(findings[number], await _repair(manner.run, findings[number]))

    lines: dict[str, list[int]] = {}
    for number, finding in enumerate(findings):
        if not manner.is_last(finding):
            lines.setdefault(manner.line(finding), []).append(number)
    await asyncio.gather(*map(one_after_the_other, lines.values()))
    await one_after_the_other([number for number, finding in enumerate(findings) if manner.is_last(finding)])
    return tuple(ends[number] for number in range(len(findings)))


async def _repair(run: Run, finding: Finding) -> tuple[Ran, ...]:
    ran = await _run(run, finding["repair"])
    if ran[-1].exit_code and finding["otherwise"]:
        ran += await _run(run, finding["otherwise"])
    return ran


async def _run(run: Run, commands: Sequence[str]) -> tuple[Ran, ...]:
    """Run commands one after the other, up to the first that fails."""
    ended: tuple[Ran, ...] = ()
    for command in commands:
        program, *words = shlex.split(command)
        assert program == "hermesops"
        ran = await run([*words, *(["--yes"] if ASKING & set(words) else [])])
        assert "Traceback" not in ran.stderr, str(ran)
        ended += (ran,)
        if ran.exit_code:
            break
    return ended
