"""An hour without a messenger, and the time after it, on a clock that the test moves.

Sender, rows, bot and the messenger's stand-in, which counts each limit that is exceeded, are real; agents' answers are
rows, as agents' sockets write them.
"""

import asyncio
from dataclasses import dataclass, field

from hermesops.model.fleet.instance import Instance, InstanceStatus
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.outgoing import Draft
from hermesops.store.registry import Registry
from hermesops.store.registry.schema.tables import hermes_instances
from hermesops.users.messaging.messengers.telegram.send import TelegramBot
from hermesops.users.messaging.outbound.bots import TELEGRAM_PACE
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.sender import Sender
from tests.support.real.stores.registries import TurnedClock, placed
from tests.support.users.messaging import Messaging

TELEGRAM = Messenger.TELEGRAM
HOUR_S = 3600
FIGURE_S = 60
"""Seconds between two looks at the figures."""

_STEP_S = 0.1
_FIRST_PERSON = 1000


@dataclass
class Outage:
    """The world of an outage.

    Attributes:
        chats: How many users write to their agents.
        answers: How many answers each gets in the hour.
        figures: By state of ``hermesops_messenger_users``, the users of Telegram each minute.
    """

    world: Messaging
    registry: Registry
    clock: TurnedClock
    chats: int
    answers: int
    figures: dict[str, list[int]] = field(default_factory=dict)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _passed_s: float = 0.0
    _next_figure_s: float = 0.0

    def __post_init__(self) -> None:
        world, telegram = self.world, self.world.telegram
        telegram.clock = self._monotonic
        bot = TelegramBot(lambda: telegram.token, world.telegram_url)
        budget = Budget(TELEGRAM_PACE)
        self._sender = Sender(
            *(TELEGRAM, world.outgoing, world.accounts, budget, bot.send, world.answered, world.agent_files),
            monotonic=self._monotonic,
        )
        self._instances = [self._agent(number) for number in range(self.chats)]

    def _monotonic(self) -> float:
        return self._passed_s

    def _agent(self, number: int) -> Instance:
        instance, person = placed(self.registry, f"user-{number}"), _FIRST_PERSON + number
        with self.world.database.writing() as connection:
            is_it = hermes_instances.c.id == instance.id
            connection.execute(hermes_instances.update().where(is_it).values(status=InstanceStatus.RUNNING))
        code = self.world.accounts.add_code(instance.user_id)
        self.world.telegram.chat(person)
        self.world.accounts.link(code, TELEGRAM, str(person), str(person), "Ada")
        return instance

    @property
    def is_open(self) -> bool:
        """Whether an answer waits."""
        return any(messenger.undelivered for messenger in self.registry.messages.counts().values())

    async def last(self, status: int, seconds: float = HOUR_S) -> None:
        """Let agents answer for some time, while the messenger answers with a status; 0 is success."""
        self.world.telegram.fault = lambda: status
        pause_s = seconds / self.answers
        for answer in range(self.answers):
            for number, instance in enumerate(self._instances):
                self._write(number, instance, answer)
            await self._run(pause_s, 2.0)

    async def drain(self, *, within_s: float) -> float:
        """Let the messenger answer again; returns the seconds until nothing waits, or ``within_s``."""
        self.world.telegram.fault = lambda: 0
        began = self._passed_s
        while self.is_open and self._passed_s - began < within_s:
            await self._run(5.0, _STEP_S)
        return self._passed_s - began

    async def quiet(self, seconds: float) -> None:
        """Let time pass in which nobody writes."""
        await self._run(seconds, 15.0)

    def _write(self, number: int, instance: Instance, answer: int) -> None:
        chat = str(_FIRST_PERSON + number)
        origin = f"{instance.id}/r{answer}"
        self.world.outgoing.add(Draft(origin, TELEGRAM, chat, (f"answer {answer}",), instance.id))

    async def _run(self, seconds: float, step_s: float) -> None:
        ends = self._passed_s + seconds
        while self._passed_s < ends:
            await self._sender.begin_due(self._running)
            await asyncio.gather(*self._running.values())
            if self._passed_s >= self._next_figure_s:
                self._note()
            self._passed_s += step_s
            self.clock.turn(step_s)

    def _note(self) -> None:
        self._next_figure_s += FIGURE_S
        messengers = {each.messenger: each for each in self.registry.message_figures.read().messengers}
        for state in ("linked", "blocked", "delivered", "undelivered", "refused"):
            self.figures.setdefault(state, []).append(getattr(messengers[TELEGRAM], state))

    def wrong_chats(self) -> list[int]:
        """Persons whose chat is not all answers, once each and in their order."""
        expected = [f"answer {answer}" for answer in range(self.answers)]
        people = range(_FIRST_PERSON, _FIRST_PERSON + self.chats)
        return [person for person in people if self.world.telegram.chat(person).texts != expected]
