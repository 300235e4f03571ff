"""Agents that somebody has taken over: ``hostile_hook`` put into a real one, and how it answers, changed at will."""

import base64
import io
import tarfile
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.support.hostile.agents import hostile_hook, hostile_moods
from tests.support.real.commands.command import Command, Ran

FOLDER = "/var/lib/hermes/hooks/hostile"
_FILES = {
    "HOOK.yaml": hostile_hook.MANIFEST.encode(),
    "handler.py": Path(hostile_hook.__file__).read_bytes(),
    "hostile_moods.py": Path(hostile_moods.__file__).read_bytes(),
}


async def take_over(world: Command, user: str, *deeds: str) -> None:
    """Put the hook into an agent's home, as the agent can, and start the agent anew; it answers as it should still."""
    files = {**_FILES, "deeds": " ".join(deeds).encode()}
    packed = base64.b64encode(_archive(files)).decode()
    await _as_agent(world, user, f"mkdir -p {FOLDER} && echo {packed} | base64 -d | tar -xzf - -C {FOLDER}")
    restarted = await world.run("instance", "exec", user, "--reason", "test", "--", "systemctl restart hermes-gateway")
    assert restarted.exit_code == 0, str(restarted)


async def set_mood(world: Command, user: str, *, proxy: str = "", node: str = "") -> None:
    """How it answers from now on; without a mood it answers as it should."""
    words = [
        f"printf %s {mood} > {FOLDER}/{name}" if mood else f"rm -f {FOLDER}/{name}"
        for name, mood in (("proxy", proxy), ("node", node))
    ]
    await _as_agent(world, user, " && ".join(words))


async def have_others_stopped(world: Command, user: str) -> None:
    """Let the agent stop all processes of its user but its own, from now on; root says so, whom it cannot stop."""
    await world.ok("instance", "exec", user, "--reason", "test", "--", f"touch {FOLDER}/stop")


async def _as_agent(world: Command, user: str, words: str) -> Ran:
    ran = await world.run("instance", "exec", user, "--user", "hermes", "--reason", "test", "--", words)
    assert ran.exit_code == 0, str(ran)
    return ran


def _archive(files: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def check_text(ran: Ran) -> None:
    """Nothing that a terminal obeys, no bug, and no line that poses as one of ours."""
    output = ran.stdout + ran.stderr
    assert all(char.isprintable() or char == "\n" for char in output), ascii(output)
    assert "Traceback" not in output, output
    assert "a bug" not in output, output
    assert not [line for line in output.splitlines() if line.startswith("hermes-node: all is well")]


LONGEST_S = 120.0
"""Seconds for one command, on a computer that is at other things too."""


@dataclass(frozen=True)
class TakenOver:
    """Two users: the agent of ``bad`` was taken over, that of ``good`` is as it should be."""

    world: Command
    bad: str
    good: str

    async def gateway(self, user: str) -> str:
        """What an operator is told of an agent."""
        ran = await self.world.run("instance", "show", user, "--json", timeout_s=LONGEST_S)
        check_text(ran)
        return str(ran.json["instance"]["gateway"])


@asynccontextmanager
async def taken_over(world: Command) -> AsyncIterator[TakenOver]:
    """Two users in a world; gone afterwards, which no mood keeps from being done."""
    pair = TakenOver(world, *(f"u{uuid.uuid4().hex[:8]}" for _ in range(2)))
    for user in (pair.bad, pair.good):
        await world.ok("provision", user, "--plan", "light")
    await take_over(world, pair.bad, "links", "stop_others")
    yield pair
    for user in (pair.bad, pair.good):
        await world.ok("instance", "terminate", user, "--yes", "--reason", "test")


async def see_it_backed_up(pair: TakenOver, mood: str) -> None:
    """Have the agent be in a mood: an operator is told, the other agent is well, and a backup is made all the same."""
    await set_mood(pair.world, pair.bad, proxy=mood, node=mood)
    response = await pair.gateway(pair.bad)
    assert response in {"ok", "silent", "degraded"}, response
    assert await pair.gateway(pair.good) == "ok"
    backed_up = await pair.world.run("backup", "create", pair.bad, timeout_s=LONGEST_S)
    check_text(backed_up)
    assert backed_up.exit_code == 0, str(backed_up)
