"""Users at work while parts of their platform die or hang at random moments; the seed decides on parts and moments."""

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from uuid import UUID

from hermesops.base.waiting import Pending, cancel, pause, until
from tests.support.users.kills.asking import Asking
from tests.support.users.kills.chatting import Chatting, Habits, Message
from tests.support.users.kills.parts import Part, all_up, kinds_of
from tests.support.users.kills.streams import by_events, by_socket
from tests.support.users.kills.subscribing import Purchase, Subscribing
from tests.support.users.kills.world import KillWorld

_WAYS = 3
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
        hang_share: Share of parts that do not die, and hang.
        hang_s: Seconds for which they do, at least and at most. The most is more than any lease, and than the time
            after which a message counts as lost: others go on with what the hanging process had, then it comes back.
        habits: Of users who chat; every third one reads by a WebSocket.
    """

    kills: int
    subscribers: int
    minutes: float
    every_s: float = 5.0
    away_s: float = 2.0
    hang_share: float = 0.25
    hang_s: tuple[float, float] = (3.0, 45.0)
    habits: Habits = field(default_factory=Habits)


@dataclass(frozen=True)
class Kill:
    """A part that was killed, or hung.

    Attributes:
        at: Seconds of a clock that never goes back.
        lasted_s: Seconds for which it hung; 0 for one that was killed.
    """

    part: str
    at: float
    lasted_s: float = 0.0

    @property
    def kind(self) -> str:
        """Its part's name without a number, and what was done to it."""
        name = self.part.partition(" ")[0]
        return f"{name} hung" if self.lasted_s else name


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
            Chatting(
                f"chatter{number}",
                self._asking(chatter.user_id),
                by_events if number % _WAYS else by_socket,
                self.size.habits,
            )
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
        ending: set[asyncio.Task[None]] = set()
        try:
            for part in islice(self._victims(chance), self.size.kills):
                await pause(chance.uniform(0, 2 * self.size.every_s))
                if time.monotonic() > end:
                    break
                task = asyncio.ensure_future(await self._struck(part, chance))
                ending.add(task)
                task.add_done_callback(ending.discard)
                if len(self.kills) % 10 == 0:
                    self._narrate()
            await asyncio.gather(*ending)
        finally:
            await cancel(*ending)
            for part in self.world.parts:
                await part.wake()

    async def _struck(self, part: Part, chance: random.Random) -> Coroutine[None, None, None]:
        """Kill a part, or make it hang; what ends that after its time."""
        away_s, hang_s = chance.uniform(0, self.size.away_s), chance.uniform(*self.size.hang_s)
        if chance.random() < self.size.hang_share:
            await part.hang()
            self.kills.append(Kill(part.name, time.monotonic(), hang_s))
            return _after(hang_s, part.wake)
        await part.kill()
        self.kills.append(Kill(part.name, time.monotonic()))
        return _after(away_s, part.start)

    def _narrate(self) -> None:
        ended = [message for message in self.messages if message.end]
        bought = sum(bool(purchase.ended) for purchase in self.purchases)
        wrong = sum(bool(message.wrong) for message in self.messages)
        wrong += sum(bool(purchase.wrong) for purchase in self.purchases)
        self.report(f"{len(self.kills)} points, {len(ended)} turns, {bought} plans bought and ended, {wrong} wrong")

    def _asking(self, user_id: str) -> Asking:
        chance = random.Random(f"{self.seed}/{user_id}")  # noqa: S311 - as above
        return Asking(user_id, self.world.api_urls, self.world.issuer, chance, first=chance.randrange(2))

    def _new_user(self, number: int) -> str:
        chance = random.Random(f"{self.seed}/subscriber/{number}")  # noqa: S311 - as above
        return str(UUID(int=chance.getrandbits(128), version=4))


async def _after(seconds: float, work: Callable[[], Awaitable[None]]) -> None:
    await pause(seconds)
    await work()
