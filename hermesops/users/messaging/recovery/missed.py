"""Reads messages of Discord's that came while no session of its gateway was open.

Discord keeps them in the chats and sends them to no later session. Chats are read from which something came before.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from hermesops.base.waiting import pause
from hermesops.errors import HermesError, RefusedError, UnknownOutcomeError
from hermesops.model.messaging.message import Update
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.users.messaging.messengers.discord.read import read
from hermesops.users.messaging.messengers.discord.send import DiscordBot

_BETWEEN_S = 0.1
"""Discord takes fifty requests a second; the others are for messages."""

_AGAIN_S = 30.0
_MOST_TRIES = 10

log = structlog.get_logger()


@dataclass(frozen=True)
class MissedMessages:
    """Reads what was missed.

    Attributes:
        keep: Keeps a message, unless it is a row already.
    """

    bot: DiscordBot
    incoming: IncomingMessages
    keep: Callable[[Update], Awaitable[None]]

    async def read_all(self) -> None:
        """Read the newest chats; those that Discord does not answer for are read again later."""
        for _ in range(_MOST_TRIES):
            if await self._read_once():
                return
            await pause(_AGAIN_S)

    async def _read_once(self) -> bool:
        is_done = True
        try:
            chats = await asyncio.to_thread(self.incoming.newest_of_chats, Messenger.DISCORD)
        except HermesError as error:
            log.warning("chats_not_known", why=error.message)
            return False
        for vendor_chat, newest in chats:
            try:
                await self._read(vendor_chat, newest)
            except RefusedError as error:
                log.info("chat_not_read", why=error.message)
            except (HermesError, UnknownOutcomeError) as error:
                log.warning("chat_not_read", why=error.message)
                is_done = False
            await pause(_BETWEEN_S)
        return is_done

    async def _read(self, vendor_chat: str, newest: str) -> None:
        for message in await self.bot.messages(vendor_chat, newest):
            update = read(message)
            if update is not None and update.vendor_chat == vendor_chat:
                await self.keep(update)
