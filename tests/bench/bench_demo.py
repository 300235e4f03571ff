"""``make demo`` on a computer that has never seen it, and again; and the image build that the first one contains."""

import asyncio
import os
import re
import signal
import time
from dataclasses import dataclass, field

from hermesops.base import assets
from tests.bench.figures import Board, report
from tests.support.real.commands.command import Command

USERS = ("ada", "grace")
"""Who has an agent afterwards."""

_IMAGE_STEPS = ("machine", "roles", "slot", "prepare", "clean", "save", "boot", "prove")
"""As the build takes them; its JSON sorts them by name."""

_SHOWN = re.compile(r"\$ hermesops (provision|\w+ \w+)")


@dataclass
class Demo:
    """One run.

    Attributes:
        seconds: Of the whole.
        steps: Of each command that it shows, in order, by its first two words.
    """

    seconds: float = 0.0
    steps: dict[str, float] = field(default_factory=dict)

    def __str__(self) -> str:
        return " + ".join(f"{step} {seconds:.1f}" for step, seconds in self.steps.items())


async def measure(board: Board, command: Command) -> None:
    """Add the figures, in an empty home with empty caches; leaves a world that is up, an image and two agents."""
    cold = await demo(command, USERS[0])
    image = (await command.ok("image", "build", "--json")).json["image"]
    assert not image["made"]
    base = cold.steps["local up"]
    steps = ", ".join(f"{step} {image['seconds'][step]:.1f}" for step in _IMAGE_STEPS if step in image["seconds"])
    built = sum(image["seconds"].values())
    board.add("image build, cold", f"{built:.0f} s", target="<= 240 s", against=f"its steps: {steps}")
    board.add(
        "  with local up before it, which makes the base",
        f"{base + built:.0f} s",
        target="<= 240 s",
        against=f"local up alone: {base:.1f} s",
    )
    board.add(
        "make demo, cold caches, empty home", f"{cold.seconds:.0f} s", target="<= 120 s", against=f"its steps: {cold}"
    )
    other = await demo(command, USERS[1])
    beside = f"the cold one: {cold.seconds:.0f} s, {cold.seconds / other.seconds:.0f}x; its steps: {other}"
    board.add("make demo, warm, for another user", f"{other.seconds:.1f} s", target="<= 60 s", against=beside)
    same = await demo(command, USERS[0])
    board.add("make demo, warm, for the same user again", f"{same.seconds:.1f} s", against=f"its steps: {same}")


async def demo(command: Command, user: str) -> Demo:
    """Run it as a person would, but in the command's home."""
    report(f"==> make demo for {user}")
    # What an outer make says to its children is not for this one.
    environ = {key: value for key, value in command.environ.items() if key not in {"MAKEFLAGS", "MFLAGS", "MAKELEVEL"}}
    started = time.perf_counter()
    process = await asyncio.create_subprocess_exec(
        "make",
        "--no-print-directory",
        "demo",
        f"USER_NAME={user}",
        cwd=assets.folder("images").parent,
        env=environ,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        return await _watched(process, started)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)


async def _watched(process: asyncio.subprocess.Process, started: float) -> Demo:
    """Follow what it prints, and note when each command begins."""
    since = started
    assert process.stdout is not None
    done, step = Demo(), ""
    reports: list[str] = []
    async for line in process.stdout:
        reports.append(line.decode(errors="replace"))
        if shown := _SHOWN.match(reports[-1]):
            now = time.perf_counter()
            if step:
                done.steps[step] = now - since
            step, since = shown[1], now
    exit_code = await process.wait()
    ended = time.perf_counter()
    done.steps[step] = ended - since
    done.seconds = ended - started
    assert exit_code == 0, "".join(reports)
    return done
