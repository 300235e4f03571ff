"""What an agent knows: a file that it was told to write, or, on a simulated machine, that is written for it."""

import re
from dataclasses import dataclass
from http import HTTPStatus
from typing import Protocol

import httpx

from tests.support.real.commands.command import Command
from tests.support.vendor.outside_changes import vendor_of

PLACE = "/var/lib/hermes/memories/MEMORY.md"
_WORD = re.compile(r"taught-[0-9a-z-]+")
_WHY = ("--reason", "test")


class AgentMemory(Protocol):
    """A way to teach agents and to ask them; words look like ``taught-3-1f``."""

    async def teach(self, user: str, word: str) -> None:
        """Have a user's running agent remember a word."""

    async def recall(self, user: str) -> tuple[str, ...]:
        """Every word that the agent knows, oldest first."""


@dataclass(frozen=True)
class ToldMemory:
    """Asks the agent itself, which runs what it is told to run."""

    world: Command

    async def teach(self, user: str, word: str) -> None:
        """See ``AgentMemory.teach``."""
        await self._chat(user, f"RUN: mkdir -p $(dirname {PLACE}) && echo {word} >> {PLACE}")

    async def recall(self, user: str) -> tuple[str, ...]:
        """See ``AgentMemory.recall``."""
        return tuple(_WORD.findall(await self._chat(user, f"RUN: tail -n 1000 {PLACE}")))

    async def _chat(self, user: str, text: str) -> str:
        return (await self.world.ok("instance", "chat", user, text, *_WHY)).stdout


@dataclass(frozen=True)
class WrittenMemory:
    """Writes and reads the file by the vendor's toolbox: an agent on a simulated machine runs nothing."""

    world: Command

    async def teach(self, user: str, word: str) -> None:
        """See ``AgentMemory.teach``."""
        known = "".join(f"{fact}\n" for fact in (*await self.recall(user), word))
        async with self._toolbox() as vendor:
            path = f"{await self._files(user)}/upload"
            sent = await vendor.post(path, params={"path": PLACE, "mode": "644"}, content=known.encode())
            sent.raise_for_status()

    async def recall(self, user: str) -> tuple[str, ...]:
        """See ``AgentMemory.recall``."""
        async with self._toolbox() as vendor:
            read = await vendor.get(f"{await self._files(user)}/download", params={"path": PLACE})
        if read.status_code == HTTPStatus.NOT_FOUND:
            return ()
        return tuple(_WORD.findall(read.raise_for_status().text))

    async def _files(self, user: str) -> str:
        machine_id = (await self.world.ok("instance", "show", user, "--json")).json["instance"]["machine_id"]
        return f"machines/{machine_id}/toolbox/files"

    def _toolbox(self) -> httpx.AsyncClient:
        return vendor_of(self.world.home / "local" / "world")
