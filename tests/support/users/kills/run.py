"""Users at work while parts of their platform are killed at random moments; the seed decides on parts and moments."""

import asyncio
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from hermesops.base.waiting import Pending, cancel, pause, until
from tests.support.users.kills.asking import Asking
from tests.support.users.kills.chatting import Chatting, Message
from tests.support.users.kills.parts import Part, all_up, kinds_of
from tests.support.users.kills.subscribing import Purchase, Subscribing
from tests.support.users.kills.world import KillWorld

_BEGIN_S = 120.0
"""Seconds until half of the users have got an answer."""


@dataclass(frozen=True)
class Size:
    """How much happens.

    Attributes:
        subscribers: Users who buy; those who chat are the world's.
        minutes: After which no further kill begins.
        every_s: Seconds between two kills on average.
        away_s: Seconds at most until a dead part is started again.
        message_s: Seconds between two messages of a user on average.
    """

    kills: int
    subscribers: int
    minutes: float
    every_s: float = 5.0
    away_s: float = 2.0
    message_s: float = 20.0


@dataclass(frozen=True)
class Kill:
    """A part that was killed; ``at`` in seconds of a clock that never goes back."""

    part: str
    at: float


@dataclass
class KillRun:
    """One run.

    Attributes:
        report: Called with a line now and then.
        kills: Those of this run.
    """

    world: KillWorld
    size: Size
    seed: int
    report: Callable[[str], object]
    kills: list[Kill] = field(default_factory=list)
    chatting: list[Chatting] = field(default_factory=list)
    subscribing: list[Subscribing] = field(default_factory=list)
    is_over: bool = False

    @property
    def messages(self) -> Sequence[Message]:
        """All messages of all users."""
        return [message for user in self.chatting for message in user.messages]

    @property
    def purchases(self) -> Sequence[Purchase]:
        """All purchases of all users."""
        return [purchase for user in self.subscribing for purchase in user.purchases]

    async def work(self) -> None:
        """Let users work and kill parts, until enough was killed; then let users finish with all parts alive."""
        self.chatting = [
            Chatting(f"chatter{number}", self._asking(chatter.user_id), self.size.message_s)
            for number, chatter in enumerate(self.world.chatters)
        ]
        self.subscribing = [
            Subscribing(f"subscriber{number}", self._asking(self._new_user(number)))
            for number in range(self.size.subscribers)
        ]
        users: list[Chatting | Subscribing] = [*self.chatting, *self.subscribing]
        working = [asyncio.ensure_future(user.run(lambda: self.is_over)) for user in users]
        try:
            await until(self._is_at_work, what="users at work", timeout_s=_BEGIN_S, every_s=0.5)
            await self._kill()
            self.is_over = True
            await all_up(self.world.programs)
            await asyncio.gather(*working)
        finally:
            self.is_over = True
            await cancel(*working)

    async def _is_at_work(self) -> bool | Pending[bool]:
        begun, ended = len(self.messages), sum(bool(message.end) for message in self.messages)
        return ended * 2 > len(self.chatting) or Pending(f"{ended} of {begun} turns have ended")

    def _victims(self, chance: random.Random) -> Iterator[Part]:
        """Parts to kill: one of each kind, in any order, and then again."""
        kinds = kinds_of(self.world.parts)
        while True:
            for kind in chance.sample(sorted(kinds), len(kinds)):
                yield chance.choice(kinds[kind])

    async def _kill(self) -> None:
        chance = random.Random(f"{self.seed}/kills")  # noqa: S311 - choices, no secrets
        end = time.monotonic() + self.size.minutes * 60
        starting: set[asyncio.Task[None]] = set()
        try:
            for part in islice(self._victims(chance), self.size.kills):
                await pause(chance.uniform(0, 2 * self.size.every_s))
                if time.monotonic() > end:
                    break
                await part.kill()
                self.kills.append(Kill(part.name, time.monotonic()))
                task = asyncio.ensure_future(_started(part, chance.uniform(0, self.size.away_s)))
                starting.add(task)
                task.add_done_callback(starting.discard)
                if len(self.kills) % 10 == 0:
                    self._narrate()
            await asyncio.gather(*starting)
        finally:
            await cancel(*starting)

    def _narrate(self) -> None:
        ended = [message for message in self.messages if message.end]
        bought = sum(bool(purchase.ended) for purchase in self.purchases)
        wrong = sum(bool(message.wrong) for message in self.messages)
        wrong += sum(bool(purchase.wrong) for purchase in self.purchases)
        self.report(f"{len(self.kills)} kills, {len(ended)} turns, {bought} plans bought and ended, {wrong} wrong")

    def _asking(self, user_id: str) -> Asking:
        chance = random.Random(f"{self.seed}/{user_id}")  # noqa: S311 - as above
        return Asking(user_id, self.world.api_urls, self.world.issuer, chance, first=chance.randrange(2))

    def _new_user(self, number: int) -> str:
        chance = random.Random(f"{self.seed}/subscriber/{number}")  # noqa: S311 - as above
        return str(UUID(int=chance.getrandbits(128), version=4))


async def _started(part: Part, after_s: float) -> None:
    await pause(after_s)
    await part.start()
