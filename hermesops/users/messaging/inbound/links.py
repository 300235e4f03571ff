"""Which messengers a user has linked, and codes that link one more.

Source: Telegram Bot API, "Deep linking"; Slack, "Deep linking into Slack"; WhatsApp's help, "How to use click to chat".
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from hermesops.errors import RefusedError
from hermesops.model.ids import UserId
from hermesops.model.messaging.message import LinkedAccount
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import CODE_LIFE, MessengerAccounts

ADDRESSES: Mapping[Messenger, str] = {
    Messenger.TELEGRAM: "https://t.me/{bot}?start={code}",
    Messenger.SLACK: "https://slack.com/app_redirect?app={bot}",
    Messenger.WHATSAPP: "https://wa.me/{bot}?text=link%20{code}",
    Messenger.DISCORD: "https://discord.com/users/{bot}",
}
"""Addresses that open the chat with our bot, by messenger; Telegram's and WhatsApp's have the code in them, too."""

_TEXTS = {Messenger.TELEGRAM: "/start {code}"}
_TEXT = "link {code}"
"""Message that links the account that it comes from: not every messenger lets one begin with a slash."""


class NotOfferedError(RefusedError):
    """The platform has no bot in this messenger."""


@dataclass(frozen=True)
class LinkCode:
    """A code that links one account.

    Attributes:
        url: Address that opens the chat with the bot.
        text: Message to the bot that links the account.
    """

    code: str = field(repr=False)
    url: str = field(repr=False)
    text: str = field(repr=False)
    expires_at: datetime


def text_of_code(messenger: Messenger, code: str) -> str:
    """The message that uses a code up. Pure."""
    return _TEXTS.get(messenger, _TEXT).format(code=code)


@dataclass(frozen=True)
class MessengerLink:
    """A messenger as a user has it.

    Attributes:
        account: ``None`` where none is linked.
    """

    messenger: Messenger
    bot: str
    account: LinkedAccount | None


@dataclass(frozen=True)
class MessengerLinks:
    """Links of users' accounts.

    Attributes:
        bots: The bots' names, by messenger: those are offered.
        addresses: Those that open the chat with a bot, by messenger, with places for ``bot`` and ``code``.
    """

    accounts: MessengerAccounts
    bots: Mapping[Messenger, str]
    addresses: Mapping[Messenger, str] = field(default_factory=lambda: ADDRESSES)

    async def list(self, user_id: UserId) -> tuple[MessengerLink, ...]:
        """The messengers that are offered, with the user's accounts."""
        accounts = await asyncio.to_thread(self.accounts.of_user, user_id)
        linked = {account.messenger: account for account in accounts}
        return tuple(MessengerLink(messenger, bot, linked.get(messenger)) for messenger, bot in self.bots.items())

    async def make_code(self, user_id: UserId, messenger: Messenger) -> LinkCode:
        """Make a code for a messenger, valid for ten minutes and once.

        Raises:
            NotOfferedError: See there.
        """
        if messenger not in self.bots:
            raise NotOfferedError(f"{messenger} is not offered here")
        code = await asyncio.to_thread(self.accounts.add_code, user_id)
        now = await asyncio.to_thread(self.accounts.now)
        url = self.addresses[messenger].format(bot=self.bots[messenger], code=code)
        return LinkCode(code, url, text_of_code(messenger, code), now + CODE_LIFE)

    async def unlink(self, user_id: UserId, messenger: Messenger) -> bool:
        """Unlink the user's accounts of a messenger; whether there was one."""
        return await asyncio.to_thread(self.accounts.unlink, user_id, messenger) > 0
