"""The connector as a process: messengers' messages to agents' sockets, agents' answers to messengers."""

import asyncio
import os
import secrets
import socket
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import structlog

from hermesops.access.pki.door_certificate import DoorCertificate
from hermesops.agents.relay.own_relay import own_relay
from hermesops.agents.relay.routes import CONNECTOR
from hermesops.app.users_container import ConnectorContainer
from hermesops.base.bell import Bell
from hermesops.base.waiting import pause
from hermesops.connector.media import MediaDoor
from hermesops.connector.server import Connector
from hermesops.connector.sockets import Delivering
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import Incoming
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.bot_sessions import BotSessions
from hermesops.store.message_rows.gateways import Gateways
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.users.messaging.files.references import AddressedFile, addressed
from hermesops.users.messaging.files.service import MessageFiles
from hermesops.users.messaging.inbound.router import Router, agent_of
from hermesops.users.messaging.messengers.discord.gateway import DiscordGateway
from hermesops.users.messaging.messengers.discord.send import DiscordBot
from hermesops.users.messaging.outbound.answers import Answers
from hermesops.users.messaging.outbound.bots import Bot, bots_of
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.sender import Sender
from hermesops.users.messaging.outbound.typing_signs import TypingSigns
from hermesops.users.messaging.recovery.missed import MissedMessages
from hermesops.users.messaging.recovery.sweep import Sweep
from hermesops.users.messaging.recovery.transcripts import ChatTranscripts
from hermesops.users.messaging.secrets import discord_bot, gateway_secrets

if TYPE_CHECKING:
    import ssl

    from hermesops.agents.relay.client import RelayClient
    from hermesops.app.container import Container
    from hermesops.settings.environment import Environment

_SWEEP_EVERY_S = 5.0
_FORGET_EVERY = 720
_WAKE_S = 1.0

log = structlog.get_logger()


async def serve(env: "Environment", listener: socket.socket) -> None:
    """Serve agents and messengers until cancelled. Closes the listener.

    An error that ends one part ends all: the unit starts them again.

    Raises:
        UsageError: No bot is set.
        RefusedError: The registry's tables are of another hermesops.
        UnavailableError: The database does not answer.
    """
    container = ConnectorContainer(env)
    bots = bots_of(container.messenger_settings, container.secrets)
    await asyncio.to_thread(container.require_tables)
    await _serve(_Parts(container, container.relay_client, bots), listener)


async def serve_local(container: "Container", listener: socket.socket) -> None:
    """Serve as ``serve`` in a local world, where no door is before it: it has TLS of its own, and is its own relay.

    Raises:
        UsageError: There is no bot: the world came up without vendors.
        RefusedError: The key of the authority that machines trust is gone.
        UnavailableError: The local world is not up.
    """
    bots = bots_of(container.messenger_settings, container.secrets)
    authority = await asyncio.to_thread(container.authority.load)
    certificate = DoorCertificate(authority, [str(listener.getsockname()[0])], container.authority.life)
    async with own_relay(container.relay, container.callers, CONNECTOR, why="the connector of this process") as relay:
        await _serve(_Parts(container, relay, bots), listener, certificate.keep(), context=certificate.context)


async def _serve(
    parts: "_Parts",
    listener: socket.socket,
    *beside: Coroutine[Any, Any, None],
    context: "ssl.SSLContext | None" = None,
) -> None:
    try:
        async with asyncio.TaskGroup() as group:
            for work in (*parts.works(), *parts.of_messengers(), *beside):
                group.create_task(work)
            await parts.connector.serve(listener, context)
    except BaseExceptionGroup as errors:
        raise errors.exceptions[0] from None


def discord_gateway(bot: DiscordBot, incoming: IncomingMessages, heard: Bell, sessions: BotSessions) -> DiscordGateway:
    """The socket by which messages come from Discord, and what reads those that it missed.

    Args:
        heard: Rung for each message.
    """

    async def read_missed() -> None:
        await MissedMessages(bot, incoming, gateway.keep).read_all()

    alive = partial(sessions.note, Messenger.DISCORD)
    gateway = DiscordGateway(bot, incoming.add, heard.ring, read_missed, alive)
    return gateway


class _Parts:
    """The parts of a connector, and the bells between them."""

    def __init__(self, container: "Container | ConnectorContainer", relay: "RelayClient", bots: Sequence[Bot]) -> None:
        rows = container.user_rows
        self._accounts, self._incoming = container.messenger_accounts, container.incoming_messages
        self._outgoing = container.outgoing_messages
        self._queued, self._answered = Bell(), Bell()
        self._files = container.agent_files
        answers = Answers(self._accounts, container.accounts, self._incoming, self._outgoing, self._files)
        holder = f"{os.getpid()}-{secrets.token_hex(6)}"
        self._gateways, self._secrets = Gateways(rows), container.secrets
        self._agents_url = container.messenger_settings.agents_url
        delivering = Delivering(holder, AgentSockets(rows), self._incoming, answers, self._answered, self._addressed)
        fetch = {bot.messenger: bot.file for bot in bots}
        files = MessageFiles(
            *(self._incoming, self._outgoing, self._files, fetch, self._secrets_of),
            answered=self._answered.ring,
        )
        self.connector = Connector(delivering, self._secrets_of, MediaDoor(files))
        self._heard = Bell()
        self.router = Router(
            self._accounts,
            container.accounts,
            self._incoming,
            self._outgoing,
            self._heard,
            self._queued,
            self._answered,
            self.connector.free_fence_of,
            self.connector.deliver,
        )
        settings = container.messenger_settings
        self._discord: DiscordGateway | None = None
        if settings.discord_app:
            bot = discord_bot(settings, container.secrets)
            self._discord = discord_gateway(bot, self._incoming, self._heard, BotSessions(rows))
        self._shared_bell = container.message_bell()
        self._bots, self._written = bots, {bot.messenger: Bell() for bot in bots}
        read_chat = ChatTranscripts(relay).read
        self._sweep = Sweep(self._incoming, self._outgoing, read_chat, partial(agent_of, container.accounts))

    def _secrets_of(self, instance_id: InstanceId) -> tuple[str, ...]:
        return gateway_secrets(self._secrets, instance_id, self._gateways.generations(instance_id))

    def _addressed(self, incoming: Incoming) -> Sequence[AddressedFile]:
        """The files of a message with the addresses by which its agent reads them."""
        if incoming.instance_id is None:
            return ()
        secret = self._secrets_of(incoming.instance_id)[-1]
        return tuple(addressed(incoming, self._agents_url, secret, time.time()))

    def works(self) -> Iterable[Coroutine[Any, Any, None]]:
        """All that goes on beside the sockets and the bots, until cancelled."""
        connector = self.connector
        sockets = (connector.run(self._queued), connector.keep())
        heard = (self._shared_bell.listen(self._heard),) if self._shared_bell else ()
        return (self.router.run(), *heard, *sockets, self._wake_senders(), self.sweep_on())

    def of_messengers(self) -> Iterator[Coroutine[Any, Any, None]]:
        """The work of each messenger's bot: sending, and showing that agents are at work."""
        for bot in self._bots:
            bell = self._written[bot.messenger]
            yield Sender(
                bot.messenger, self._outgoing, self._accounts, Budget(bot.pace), bot.send, bell, self._files
            ).run()
            if bot.show_typing is not None:
                yield TypingSigns(bot.messenger, self._incoming, bot.show_typing, Budget(bot.typing_pace)).run()
        if self._discord is not None:
            yield self._discord.run()

    async def _wake_senders(self) -> None:
        """Wake the sender of each messenger when answers were queued: a bell wakes one."""
        while True:
            await self._answered.wait(_WAKE_S)
            for bell in self._written.values():
                bell.ring()

    async def sweep_on(self) -> None:
        """Look into silent messages every few seconds, and drop old texts every hour."""
        await asyncio.to_thread(self._outgoing.left_over)
        turn = 0
        while True:
            try:
                await self._sweep.run_all(self.connector.fence_of)
                if turn % _FORGET_EVERY == 0:
                    await asyncio.to_thread(self._forget)
            except HermesError as error:
                log.warning("messages_not_swept", why=error.message)
            turn += 1
            await pause(_SWEEP_EVERY_S)

    def _forget(self) -> None:
        self._incoming.forget()
        self._outgoing.forget()
        self._files.forget()
