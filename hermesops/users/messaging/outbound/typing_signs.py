"""Shows users that their agent is at work, in messengers that have a sign for it.

A sign that fails is not worth a word; a messenger that wants fewer gets none for as long as it says.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import structlog

from hermesops.base.waiting import pause
from hermesops.errors import HermesError
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.users.messaging.outbound.budget import Budget, Pace
from hermesops.users.messaging.outbound.delivery import Delivery, Limited

PACE = Pace(chat_s=4.0, a_second=8)
"""Telegram shows a sign for five seconds; the rest of what it takes in a second is for messages."""

SLOW_PACE = Pace(chat_s=20.0, a_second=8)
"""WhatsApp shows a sign for twenty-five seconds."""

Show = Callable[[str, str], Awaitable[Delivery]]
"""Shows the sign in a chat once, for the message of this id at the messenger."""

_LOOK_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class TypingSigns:
    """The signs of one messenger.

    Attributes:
        show: See there.
    """

    messenger: Messenger
    incoming: IncomingMessages
    show: Show
    budget: Budget = field(default_factory=lambda: Budget(PACE))

    async def run(self) -> None:
        """Show the sign in each chat whose agent is at work, every second, until cancelled."""
        while True:
            await pause(max(_LOOK_S, await self.show_due()))

    async def show_due(self) -> float:
        """Show the signs that are due; returns for how many seconds the messenger takes no more."""
        try:
            chats = await asyncio.to_thread(self.incoming.chats_at_work, self.messenger)
        except HermesError as error:
            log.warning("chats_at_work_not_read", messenger=self.messenger.value, why=error.message)
            return 0.0
        now = time.monotonic()
        due = [(chat, message) for chat, message in chats if self.budget.take(chat, now)]
        deliveries = await asyncio.gather(*(self.show(chat, message) for chat, message in due))
        return max((delivery.after_s for delivery in deliveries if isinstance(delivery, Limited)), default=0.0)
