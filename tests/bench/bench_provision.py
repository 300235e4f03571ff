"""A user to a running agent from the image: the whole command, for one user after the other."""

import asyncio
import re
import statistics
import time
from collections import defaultdict

from tests.bench.figures import Board, report, spread
from tests.support.real.commands.command import Command

_REFUSED = 3
_NAMES = re.compile(r"\s*\b(hermes-[a-z0-9-]+|[0-9a-f]{8}-[0-9a-f-]{27}|user\d+|in cell\d+|to user\d+)\b")


async def measure(board: Board, command: Command, users: int) -> None:
    """Add the figures; leaves that many agents more, or as many as fit on this computer."""
    whole: list[float] = []
    steps: defaultdict[str, list[float]] = defaultdict(list)
    for number in range(users):
        report(f"==> hermesops provision user{number}")
        ran = await provision(command, f"user{number}")
        if ran is None:
            report(f"    this computer has no room for more than {number}")
            break
        whole.append(ran[0])
        for step, seconds in ran[1].items():
            steps[step].append(seconds)
    parts = ", ".join(f"{step} {statistics.median(seconds):.2f}" for step, seconds in steps.items())
    board.add(
        f"hermesops provision, from the image, {len(whole)} users in turn",
        spread(whole),
        target="<= 10 s",
        against=f"medians of its steps: {parts}",
    )
    restarts = [(await command.ok("instance", "restart", f"user{number}")).seconds for number in range(min(3, users))]
    board.add(
        "hermesops instance restart, a running agent",
        f"p50 {statistics.median(restarts):.2f} s",
        against="a start of the agent on a quiet computer, recorded: 1.9 s",
    )


async def provision(command: Command, user: str) -> tuple[float, dict[str, float]] | None:
    """Seconds of the command and of its steps, by what it says when each begins; nothing when it was refused."""
    started = time.perf_counter()
    process = await command.start("provision", user, "--plan", "light")
    try:
        return await _watched(process, started)
    finally:
        if process.returncode is None:
            process.kill()


async def _watched(process: asyncio.subprocess.Process, started: float) -> tuple[float, dict[str, float]] | None:
    since = started
    assert process.stderr is not None
    assert process.stdout is not None
    result = asyncio.create_task(process.stdout.read())
    reports: list[str] = []
    steps: dict[str, float] = {}
    step = "start"
    async for line in process.stderr:
        reports.append(line.decode(errors="replace").rstrip())
        now = time.perf_counter()
        steps[step] = steps.get(step, 0.0) + now - since
        step, since = _NAMES.sub("", reports[-1]), now
    exit_code = await process.wait()
    await result
    ended = time.perf_counter()
    if exit_code == _REFUSED:
        report("\n".join(reports))
        return None
    assert exit_code == 0, "\n".join(reports)
    steps[step] = steps.get(step, 0.0) + ended - since
    return ended - started, steps
