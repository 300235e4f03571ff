"""Everything between messengers and an agent's socket, in one process: rows, router, senders, connector, vendors."""

import asyncio
import json
import socket
import time
from base64 import urlsafe_b64encode
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Mount, Route
from websockets.asyncio.client import ClientConnection, connect

from hermesops.base.bell import Bell
from hermesops.base.waiting import Pending, cancel, until
from hermesops.connector.media import MediaDoor
from hermesops.connector.serve import discord_gateway
from hermesops.connector.server import PATH, Connector
from hermesops.connector.sockets import Delivering
from hermesops.localcloud.vendors import discord, slack, whatsapp
from hermesops.localcloud.vendors.phone.discord_chat import discord_chat
from hermesops.localcloud.vendors.phone.phone import PREFIX as PHONE
from hermesops.localcloud.vendors.phone.phone import Phone, to_page
from hermesops.localcloud.vendors.phone.slack_chat import slack_chat
from hermesops.localcloud.vendors.phone.telegram_chat import telegram_chat
from hermesops.localcloud.vendors.phone.whatsapp_chat import whatsapp_chat
from hermesops.localcloud.vendors.telegram import PREFIX, WEBHOOK_PATH
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import Incoming
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.bot_sessions import BotSessions
from hermesops.store.message_rows.gateways import Gateways
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import OutgoingMessages
from hermesops.store.message_rows.sockets import AgentSockets
from hermesops.store.registry.database import Database
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.users.messaging.files.references import AddressedFile, addressed
from hermesops.users.messaging.files.service import MessageFiles
from hermesops.users.messaging.inbound.door import DiscordDoor, SlackDoor, TelegramDoor, WhatsAppDoor
from hermesops.users.messaging.inbound.router import Router, agent_of
from hermesops.users.messaging.inbound.routing import Agent
from hermesops.users.messaging.messengers.discord.gateway import DiscordGateway
from hermesops.users.messaging.messengers.discord.send import DiscordBot
from hermesops.users.messaging.messengers.slack.send import SlackBot
from hermesops.users.messaging.messengers.telegram.read import SECRET_HEADER
from hermesops.users.messaging.messengers.telegram.send import TelegramBot
from hermesops.users.messaging.messengers.whatsapp.read import SIGNATURE_HEADER, Reader
from hermesops.users.messaging.messengers.whatsapp.send import WhatsAppBot
from hermesops.users.messaging.outbound.answers import Answers
from hermesops.users.messaging.outbound.bots import DISCORD_PACE, SLACK_PACE, TELEGRAM_PACE, WHATSAPP_PACE, Bot
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.sender import Sender
from hermesops.users.messaging.outbound.typing_signs import SLOW_PACE, TypingSigns
from hermesops.users.messaging.relay_secrets import derive, sign
from tests.support.real.edge import free_port
from tests.support.real.stores.registries import KEYS
from tests.support.users.strict_telegram import StrictTelegram

HOST = "127.0.0.1"
ROOT = bytes(range(32))


@dataclass
class Messaging:
    """What a test drives.

    Attributes:
        port: Of the connector, also while it is away.
        path: Of its socket in the place of a port, behind the door.
        ring_others: Rings the bell that other processes hear.
    """

    database: Database
    telegram: StrictTelegram
    slack: slack.LocalSlack
    whatsapp: whatsapp.LocalWhatsApp
    discord: discord.LocalDiscord
    vendors_url: str
    port: int = field(default_factory=free_port)
    path: Path | None = None
    accounts: MessengerAccounts = field(init=False)
    incoming: IncomingMessages = field(init=False)
    outgoing: OutgoingMessages = field(init=False)
    agent_files: AgentFiles = field(init=False)
    heard: Bell = field(default_factory=Bell)
    queued: Bell = field(default_factory=Bell)
    answered: Bell = field(default_factory=Bell)
    ring_others: Callable[[], None] = lambda: None
    running_connector: Connector = field(init=False)
    gateway: DiscordGateway = field(init=False)

    def __post_init__(self) -> None:
        self.accounts = MessengerAccounts(self.database, KEYS)
        self.incoming = IncomingMessages(self.database, KEYS)
        self.outgoing = OutgoingMessages(self.database, KEYS)
        self.agent_files = AgentFiles(self.database, KEYS)
        self.door = TelegramDoor(lambda: ("hook",), self.incoming.add)
        self.slack_door = SlackDoor(lambda: (self.slack.secret,), self.incoming.add)
        self.whatsapp_door = WhatsAppDoor(
            lambda: (self.whatsapp.secret,), self.incoming.add, Reader(whatsapp.PHONE, ROOT)
        )
        self.whatsapp.report = self.take_of_whatsapp

    @property
    def telegram_url(self) -> str:
        """Of the Bot API."""
        return f"{self.vendors_url}{PREFIX}"

    @property
    def slack_url(self) -> str:
        """Of the Web API."""
        return f"{self.vendors_url}{slack.PREFIX}"

    @property
    def discord_url(self) -> str:
        """Of the HTTP API."""
        return f"{self.vendors_url}{discord.PREFIX}"

    @property
    def whatsapp_url(self) -> str:
        """Of the Graph API."""
        return f"{self.vendors_url}{whatsapp.PREFIX}"

    def take_of_whatsapp(self, report: Mapping[str, Any]) -> None:
        """Take what WhatsApp reports, as the users' API does."""
        body = json.dumps(dict(report)).encode()
        self.whatsapp_door.take(body, self.whatsapp.signed(body)[SIGNATURE_HEADER])
        self.heard.ring()

    @property
    def url(self) -> str:
        """Of the connector."""
        return f"http://{HOST}:{self.port}"

    @property
    def phone_url(self) -> str:
        """Of the phone, which shows the chat of ``PERSON``."""
        return f"{self.telegram_url.removesuffix(PREFIX)}{PHONE}/"

    async def take(self, request: Request) -> Response:
        """Take what Telegram reports, as the users' API does."""
        body, secret = await request.body(), request.headers.get(SECRET_HEADER, "")
        await asyncio.to_thread(self.door.take, body, secret)
        self.heard.ring()
        return Response(status_code=204)

    async def take_event(self, request: Request) -> Response:
        """Take what Slack reports, as the users' API does."""
        body, headers = await request.body(), request.headers
        stamp, signature = headers["x-slack-request-timestamp"], headers["x-slack-signature"]
        await asyncio.to_thread(self.slack_door.take, body, stamp, signature, time.time())
        self.heard.ring()
        return Response(status_code=204)

    async def take_interaction(self, request: Request) -> Response:
        """Take what people choose in Discord, as the users' API does."""
        body, headers = await request.body(), request.headers
        door = DiscordDoor(self.discord.public_key, self.incoming.add)
        stamp, signature = headers["x-signature-timestamp"], headers["x-signature-ed25519"]
        answer = await asyncio.to_thread(door.take, body, stamp, signature, time.time())
        self.heard.ring()
        return JSONResponse(answer)

    async def take_report(self, request: Request) -> Response:
        """Take what WhatsApp reports, as the users' API does."""
        body, signature = await request.body(), request.headers[SIGNATURE_HEADER]
        await asyncio.to_thread(self.whatsapp_door.take, body, signature)
        self.heard.ring()
        return Response(status_code=200)

    def say(self, person: int, text: str) -> None:
        """Have Telegram report what a person writes, to a process that rings."""
        self.say_elsewhere(person, text)
        self.heard.ring()

    def say_elsewhere(self, person: int, text: str) -> None:
        """Have Telegram report what a person writes, to another process."""
        self.door.take(json.dumps(self.telegram.message(person, text)).encode(), "hook")

    async def hears(self, person: int, *texts: str, timeout_s: float = 30) -> None:
        """Wait until the bot has written exactly these texts to a person."""

        async def look() -> bool | Pending[bool]:
            written = self.telegram.chat(person).texts
            return written == list(texts) or Pending(repr(written))

        await until(look, what=f"texts for {person}", timeout_s=timeout_s, every_s=0.05)

    def link(self, instance: Instance, person: int) -> None:
        """Link a person's account by a code, as they do."""
        self.telegram.chat(person)
        self.say(person, f"/start {self.accounts.add_code(instance.user_id)}")

    def secrets_of(self, instance_id: InstanceId) -> tuple[str, ...]:
        return tuple(derive(ROOT, instance_id, each) for each in Gateways(self.database).generations(instance_id))

    def agent_of(self, user_id: UserId) -> Agent | None:
        return agent_of(UserAccounts(self.database), user_id)

    async def close_sockets(self) -> None:
        """Close agents' sockets as a restart of the connector does."""
        await self.running_connector.close()

    def addressed(self, incoming: Incoming) -> tuple[AddressedFile, ...]:
        """The files of a message with their addresses at this connector."""
        assert incoming.instance_id
        return tuple(addressed(incoming, self.url, self.secrets_of(incoming.instance_id)[-1], time.time()))

    def connector(self) -> Connector:
        agents = UserAccounts(self.database)
        answers = Answers(self.accounts, agents, self.incoming, self.outgoing, self.agent_files)
        parts = Delivering("test", AgentSockets(self.database), self.incoming, answers, self.answered, self.addressed)
        fetch = {bot.messenger: bot.file for bot in self.bots}
        files = MessageFiles(self.incoming, self.outgoing, self.agent_files, fetch, self.secrets_of, self.answered.ring)
        return Connector(parts, self.secrets_of, MediaDoor(files))

    @property
    def bots(self) -> tuple[Bot, ...]:
        """The bots of all messengers."""
        telegram = TelegramBot(lambda: self.telegram.token, self.telegram_url)
        own_slack = SlackBot(lambda: self.slack.token, self.slack_url)
        own_whatsapp = WhatsAppBot(lambda: self.whatsapp.token, whatsapp.PHONE, whatsapp.ACCOUNT, self.whatsapp_url)
        own_discord = DiscordBot(lambda: self.discord.token, self.discord_url)
        return (
            Bot(Messenger.TELEGRAM, TELEGRAM_PACE, telegram.send, telegram.file, telegram.show_typing),
            Bot(Messenger.SLACK, SLACK_PACE, own_slack.send, own_slack.file),
            Bot(
                *(Messenger.WHATSAPP, WHATSAPP_PACE, own_whatsapp.send, own_whatsapp.file),
                show_typing=own_whatsapp.show_typing,
                typing_pace=SLOW_PACE,
            ),
            Bot(Messenger.DISCORD, DISCORD_PACE, own_discord.send, own_discord.file),
        )

    async def _sender(self, bot: Bot) -> None:
        budget, files = Budget(bot.pace), self.agent_files
        await Sender(bot.messenger, self.outgoing, self.accounts, budget, bot.send, self.answered, files).run()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Connector]:
        """Run router, sender and connector until the block ends."""
        connector = self.running_connector = self.connector()
        agents = UserAccounts(self.database)
        router = Router(
            self.accounts,
            agents,
            self.incoming,
            self.outgoing,
            self.heard,
            self.queued,
            self.answered,
            connector.free_fence_of,
            connector.deliver,
        )
        discord_bot = DiscordBot(lambda: self.discord.token, self.discord_url)
        self.gateway = discord_gateway(discord_bot, self.incoming, self.heard, BotSessions(self.database))
        signs = [
            TypingSigns(bot.messenger, self.incoming, bot.show_typing, Budget(bot.typing_pace)).run()
            for bot in self.bots
            if bot.show_typing
        ]
        senders = (*map(self._sender, self.bots), self.gateway.run())

        listener = unix_listener(self.path) if self.path else socket.create_server((HOST, self.port))
        serving = (connector.serve(listener), connector.run(self.queued), connector.keep())
        works = [asyncio.ensure_future(each) for each in (*serving, router.run(), *senders, *signs)]
        try:
            yield connector
        finally:
            await cancel(*works)
            listener.close()


def unix_listener(path: Path) -> socket.socket:
    """A socket behind the door, as systemd makes it."""
    path.unlink(missing_ok=True)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(path))
    listener.listen()
    listener.setblocking(False)
    return listener


@asynccontextmanager
async def messaging(database: Database) -> AsyncIterator[Messaging]:
    """The local world's messengers, and everything that a test may run beside them."""
    listener = socket.create_server((HOST, 0))
    url = f"http://{HOST}:{listener.getsockname()[1]}"
    telegram = StrictTelegram(webhook=f"{url}{WEBHOOK_PATH}", secret="hook")
    local_slack = slack.LocalSlack(webhook=f"{url}{slack.WEBHOOK_PATH}")
    local_whatsapp = whatsapp.LocalWhatsApp(webhook=f"{url}{whatsapp.WEBHOOK_PATH}")
    local_discord = discord.LocalDiscord(webhook=f"{url}{discord.WEBHOOK_PATH}")
    world = Messaging(database, telegram, local_slack, local_whatsapp, local_discord, url)
    chats = [telegram_chat(telegram), slack_chat(local_slack), whatsapp_chat(local_whatsapp)]
    phone = Phone([*chats, discord_chat(local_discord)])
    routes = [
        Mount(PREFIX, routes=telegram.routes()),
        Mount(slack.PREFIX, routes=local_slack.routes()),
        Mount(whatsapp.PREFIX, routes=local_whatsapp.routes()),
        Mount(discord.PREFIX, routes=local_discord.routes()),
        Route(PHONE, to_page),
        Mount(PHONE, routes=phone.routes()),
        Route(WEBHOOK_PATH, world.take, methods=["POST"]),
        Route(slack.WEBHOOK_PATH, world.take_event, methods=["POST"]),
        Route(whatsapp.WEBHOOK_PATH, world.take_report, methods=["POST"]),
        Route(discord.WEBHOOK_PATH, world.take_interaction, methods=["POST"]),
    ]
    config = uvicorn.Config(
        Starlette(routes=routes), log_config=None, lifespan="off", timeout_graceful_shutdown=1
    )  # pages wait long for changes
    server = uvicorn.Server(config)
    serving = asyncio.ensure_future(server.serve(sockets=[listener]))
    vendors = (telegram, local_slack, local_whatsapp)
    for vendor in vendors:
        vendor.open()
    await local_discord.open()
    try:
        yield world
    finally:
        await local_discord.close()
        for vendor in vendors:
            await vendor.close()
        server.should_exit = True
        await asyncio.wait_for(serving, 10)


@dataclass
class ScriptedGateway:
    """A gateway of hermes-agent as a script: it dials, greets, and does what a test says.

    Attributes:
        inbound: Frames of users' messages that came.
    """

    socket: ClientConnection
    inbound: list[dict[str, Any]] = field(default_factory=list)

    async def next(self, kind: str) -> dict[str, Any]:
        """The next frame of a kind; others are kept or dropped."""
        while True:
            async with asyncio.timeout(20):
                frame: dict[str, Any] = json.loads(await self.socket.recv())
            if frame["type"] == "inbound":
                self.inbound.append(frame)
            if frame["type"] == kind:
                return frame

    async def send(self, chat: str, text: str, request: str = "r1", reply_to: str = "", **more: Any) -> dict[str, Any]:  # noqa: ANN401 - JSON
        """Write to a chat; returns the result. ``more``: of the action."""
        action: dict[str, Any] = {
            "op": "send",
            "chat_id": chat,
            "content": text,
            "reply_to": reply_to or None,
            "metadata": {},
            **more,
        }
        await self.frame({"type": "outbound", "requestId": request, "action": action})
        result: dict[str, Any] = (await self.next("outbound_result"))["result"]
        return result

    async def frame(self, frame: dict[str, Any]) -> None:
        await self.socket.send(json.dumps(frame) + "\n")

    async def acknowledge(self, frame: dict[str, Any]) -> None:
        """Say that a message is taken, as a gateway does before its turn begins."""
        await self.frame({"type": "inbound_ack", "bufferId": frame["bufferId"]})


@asynccontextmanager
async def dialled(world: Messaging, instance: Instance, secret: str = "") -> AsyncIterator[ScriptedGateway]:
    """A gateway's socket, greeted."""
    secret = secret or world.secrets_of(instance.id)[-1]
    headers = {"authorization": f"Bearer {bearer(instance.id, secret)}"}
    async with connect(world.url.replace("http", "ws") + PATH, additional_headers=headers, proxy=None) as socket_:
        yield await greeted(socket_)


async def greeted(socket_: ClientConnection) -> ScriptedGateway:
    """A gateway on an open socket, once the connector has answered its greeting."""
    gateway = ScriptedGateway(socket_)
    await gateway.frame({"type": "hello", "platform": "telegram", "botId": "b"})
    await gateway.next("descriptor")
    return gateway


def bearer(instance_id: InstanceId, secret: str, *, life_s: int = 300) -> str:
    """A bearer as a gateway makes it."""
    expires = int(time.time()) + life_s
    return (
        urlsafe_b64encode(f"{instance_id}:{expires}:{sign(secret, instance_id, expires)}".encode()).decode().rstrip("=")
    )
