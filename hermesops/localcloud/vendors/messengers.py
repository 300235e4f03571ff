"""All stand-ins of messengers of one world."""

import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from starlette.routing import Mount

from hermesops.localcloud.proxy.upgrade import Serve
from hermesops.localcloud.vendors import discord, slack, telegram, whatsapp
from hermesops.localcloud.vendors.phone.discord_chat import discord_chat
from hermesops.localcloud.vendors.phone.phone import Phone
from hermesops.localcloud.vendors.phone.slack_chat import slack_chat
from hermesops.localcloud.vendors.phone.telegram_chat import telegram_chat
from hermesops.localcloud.vendors.phone.whatsapp_chat import whatsapp_chat
from hermesops.localcloud.vendors.users_door import door_in
from hermesops.localcloud.world.files import WorldFiles


@dataclass(frozen=True)
class Messengers:
    """The stand-ins, and the phone that shows their chats."""

    telegram: telegram.LocalTelegram
    slack: slack.LocalSlack
    whatsapp: whatsapp.LocalWhatsApp
    discord: discord.LocalDiscord
    phone: Phone

    @classmethod
    def of(
        cls,
        files: WorldFiles,
        keys: Mapping[Path, str],
        users_url: str,
        heard: Callable[[], None],
        fault: Callable[[], int] = lambda: 0,
    ) -> "Messengers":
        """The stand-ins of a world, each with its keys.

        Args:
            keys: Texts by their files.
            users_url: Of the users' API, which takes reports.
            heard: Called when the users' API has taken what a person wrote.
            fault: The status with which Telegram answers; 0 for its own.
        """
        door = partial(door_in, files.users_door)
        own_telegram = telegram.LocalTelegram(
            keys[files.telegram_token],
            webhook=f"{users_url}{telegram.WEBHOOK_PATH}",
            secret=keys[files.telegram_secret],
            heard=heard,
            door=door,
            fault=fault,
        )
        own_slack = slack.LocalSlack(
            keys[files.slack_token],
            keys[files.slack_secret],
            webhook=f"{users_url}{slack.WEBHOOK_PATH}",
            heard=heard,
            door=door,
        )
        own_whatsapp = whatsapp.LocalWhatsApp(
            keys[files.whatsapp_token],
            keys[files.whatsapp_secret],
            webhook=f"{users_url}{whatsapp.WEBHOOK_PATH}",
            heard=heard,
            door=door,
        )
        webhook = f"{users_url}{discord.WEBHOOK_PATH}"
        own_discord = discord.LocalDiscord(keys[files.discord_token], webhook=webhook, heard=heard, door=door)
        own_telegram.begin_after(time.time())
        own_slack.begin_after(time.time())
        chats = [
            telegram_chat(own_telegram),
            slack_chat(own_slack),
            whatsapp_chat(own_whatsapp),
            discord_chat(own_discord),
        ]
        return cls(own_telegram, own_slack, own_whatsapp, own_discord, Phone(chats))

    def settings(self, url: str) -> Mapping[str, str]:
        """Settings of table ``messengers`` by which hermesops uses the stand-ins.

        Args:
            url: Of the server that they are mounted in.
        """
        return {
            "telegram_bot": telegram.BOT,
            "telegram_url": f"{url}{telegram.PREFIX}",
            "slack_app": slack.APP,
            "slack_url": f"{url}{slack.PREFIX}",
            "whatsapp_number": whatsapp.NUMBER,
            "whatsapp_phone": whatsapp.PHONE,
            "whatsapp_account": whatsapp.ACCOUNT,
            "whatsapp_url": f"{url}{whatsapp.PREFIX}",
            "discord_app": discord.APP,
            "discord_public_key": self.discord.public_key,
            "discord_url": f"{url}{discord.PREFIX}",
        }

    def sockets(self, url: str) -> Mapping[bytes, Serve]:
        """WebSockets of the messengers, by the beginnings of their paths: at the port of the world alone, as the rest.

        Args:
            url: As of ``settings``.
        """
        path = f"{discord.PREFIX}/gateway"
        self.discord.gateway.passed_on = f"ws{url.removeprefix('http')}{path}"
        return {path.encode(): self.discord.gateway.carry}

    def mounts(self) -> list[Mount]:
        """The APIs of the messengers."""
        return [
            Mount(telegram.PREFIX, routes=self.telegram.routes()),
            Mount(slack.PREFIX, routes=self.slack.routes()),
            Mount(whatsapp.PREFIX, routes=self.whatsapp.routes()),
            Mount(discord.PREFIX, routes=self.discord.routes()),
        ]

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Deliver what people write while the block lasts."""
        async with AsyncExitStack() as stack:
            for messenger in (self.telegram, self.slack, self.whatsapp):
                messenger.open()
                stack.push_async_callback(messenger.close)
            await self.discord.open()
            stack.push_async_callback(self.discord.close)
            yield
