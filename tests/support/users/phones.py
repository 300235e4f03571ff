"""A person's phone with one messenger: what each does in its own way, for the suite that all of them pass."""

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermesops.base.waiting import Pending, until
from hermesops.localcloud.vendors.telegram_chats import Entry
from hermesops.localcloud.vendors.vendor_files import VendorFile
from hermesops.model.fleet.instance import Instance
from hermesops.model.messaging.messenger import LIMITS, Messenger, chat_name
from hermesops.users.messaging.inbound.door import DiscordDoor
from hermesops.users.messaging.inbound.links import text_of_code
from tests.support.users.messaging import Messaging


@dataclass
class Phone(ABC):
    """A phone.

    Attributes:
        person: Number of its owner.
    """

    world: Messaging
    person: int = 111
    messenger: Messenger = field(init=False)

    @property
    @abstractmethod
    def vendor_chat(self) -> str:
        """The messenger's id of the chat with the bot."""

    @property
    @abstractmethod
    def texts(self) -> Sequence[str]:
        """What the bot wrote, in its order."""

    @property
    @abstractmethod
    def last(self) -> Entry:
        """The last message of the chat."""

    @abstractmethod
    def report(self, text: str) -> None:
        """Write a message, which the messenger reports."""

    @abstractmethod
    def repeat(self) -> None:
        """Have the messenger report the last message again."""

    @property
    @abstractmethod
    def files(self) -> Sequence[VendorFile]:
        """The files that the bot sent, in their order."""

    @abstractmethod
    def report_file(self, file: VendorFile, text: str) -> None:
        """Send a file, which the messenger reports."""

    @abstractmethod
    def press(self, label: str) -> None:
        """Press a button of the bot's last message, which the messenger reports."""

    @abstractmethod
    def limit(self, seconds: float) -> None:
        """Have the messenger take nothing in this chat for a time."""

    @abstractmethod
    def broken(self) -> dict[str, int]:
        """How often each limit was broken, without the one that ``limit`` made."""

    @property
    def chat(self) -> str:
        """The chat's name, as agents know it."""
        return chat_name(self.messenger, self.vendor_chat)

    @property
    def most(self) -> int:
        """The longest text of one message."""
        return LIMITS[self.messenger].most

    def say(self, text: str) -> None:
        """Write a message."""
        self.report(text)
        self.world.heard.ring()

    def send_file(self, file: VendorFile, text: str = "") -> None:
        """Send a file with a text, or without one."""
        self.report_file(file, text)
        self.world.heard.ring()

    def link(self, instance: Instance) -> None:
        """Link the account by a code, as its person does."""
        self.say(text_of_code(self.messenger, self.world.accounts.add_code(instance.user_id)))

    async def hears(self, *texts: str) -> None:
        """Wait until the bot has written exactly these texts."""

        async def look() -> bool | Pending[bool]:
            return list(self.texts) == list(texts) or Pending(repr(self.texts)[:500])

        await until(look, what=f"texts in {self.messenger}", timeout_s=60, every_s=0.05)


@dataclass
class TelegramPhone(Phone):
    """Telegram."""

    def __post_init__(self) -> None:
        self.messenger = Messenger.TELEGRAM
        self._last = b""
        self.world.telegram.chat(self.person)

    @property
    def vendor_chat(self) -> str:
        return str(self.person)

    @property
    def texts(self) -> Sequence[str]:
        return self.world.telegram.chat(self.person).texts

    @property
    def last(self) -> Entry:
        return self.world.telegram.chat(self.person).entries[-1]

    def report(self, text: str) -> None:
        self._last = json.dumps(self.world.telegram.message(self.person, text)).encode()
        self.repeat()

    @property
    def files(self) -> Sequence[VendorFile]:
        return self.world.telegram.chat(self.person).files

    def report_file(self, file: VendorFile, text: str) -> None:
        self._last = json.dumps(self.world.telegram.sending(self.person, file, caption=text)).encode()
        self.repeat()

    def repeat(self) -> None:
        self.world.door.take(self._last, "hook")

    def press(self, label: str) -> None:
        entry = self.last
        data = next(str(each["callback_data"]) for row in entry.keyboard for each in row if each["text"] == label)
        update = self.world.telegram.pressing(self.person, entry.id, data)
        self.world.door.take(json.dumps(update).encode(), "hook")
        self.world.heard.ring()

    def limit(self, seconds: float) -> None:
        self.world.telegram.chat(self.person)._limited_until = time.monotonic() + seconds

    def broken(self) -> dict[str, int]:
        return dict(self.world.telegram.broken)


@dataclass
class SlackPhone(Phone):
    """Slack."""

    def __post_init__(self) -> None:
        self.messenger = Messenger.SLACK
        self._last = b""
        self.world.slack.channel(str(self.person))

    @property
    def vendor_chat(self) -> str:
        return self.world.slack.channel(str(self.person)).id

    @property
    def texts(self) -> Sequence[str]:
        return self.world.slack.channel(str(self.person)).texts

    @property
    def last(self) -> Entry:
        return self.world.slack.channel(str(self.person)).log.entries[-1]

    def report(self, text: str) -> None:
        self._last = json.dumps(self.world.slack.message(str(self.person), text)).encode()
        self.repeat()

    @property
    def files(self) -> Sequence[VendorFile]:
        return self.world.slack.channel(str(self.person)).log.files

    def report_file(self, file: VendorFile, text: str) -> None:
        self._last = json.dumps(self.world.slack.sending(str(self.person), file, text)).encode()
        self.repeat()

    def repeat(self) -> None:
        headers = self.world.slack.signed(self._last)
        stamp, signature = headers["x-slack-request-timestamp"], headers["x-slack-signature"]
        self.world.slack_door.take(self._last, stamp, signature, time.time())

    def press(self, label: str) -> None:
        (button,) = [each for row in self.last.keyboard for each in row if each["text"] == label]
        self._last = self.world.slack.pressing(str(self.person), button["callback_data"])
        self.repeat()
        self.world.heard.ring()

    def limit(self, seconds: float) -> None:
        self.world.slack.limit(seconds)

    def broken(self) -> dict[str, int]:
        return dict(self.world.slack.broken)


@dataclass
class WhatsAppPhone(Phone):
    """WhatsApp."""

    def __post_init__(self) -> None:
        self.messenger = Messenger.WHATSAPP
        self.number = f"1555000{self.person}"
        self._last: Mapping[str, Any] = {}
        self.someone = self.world.whatsapp.person(self.number)

    @property
    def vendor_chat(self) -> str:
        return self.world.whatsapp_door.reader.person(self.someone.user_id)

    @property
    def texts(self) -> Sequence[str]:
        return self.someone.log.texts

    @property
    def last(self) -> Entry:
        return self.someone.log.entries[-1]

    def report(self, text: str) -> None:
        self._last = self.world.whatsapp.message(self.number, text)
        self.repeat()

    @property
    def files(self) -> Sequence[VendorFile]:
        return self.someone.log.files

    def report_file(self, file: VendorFile, text: str) -> None:
        self._last = self.world.whatsapp.sending(self.number, file, caption=text)
        self.repeat()

    def repeat(self) -> None:
        self.world.take_of_whatsapp(self._last)

    def press(self, label: str) -> None:
        (button,) = [each for row in self.last.keyboard for each in row if each["text"] == label]
        self.world.take_of_whatsapp(self.world.whatsapp.pressing(self.number, button["callback_data"], label))

    def limit(self, seconds: float) -> None:
        self.world.whatsapp.limit(seconds)

    def broken(self) -> dict[str, int]:
        return dict(self.world.whatsapp.broken)


@dataclass
class DiscordPhone(Phone):
    """Discord."""

    def __post_init__(self) -> None:
        self.messenger = Messenger.DISCORD
        self._last: Mapping[str, Any] = {}
        self.someone = self.world.discord.person(f"10000{self.person}")

    @property
    def vendor_chat(self) -> str:
        return self.someone.chat

    @property
    def texts(self) -> Sequence[str]:
        return self.someone.log.texts

    @property
    def last(self) -> Entry:
        return self.someone.log.entries[-1]

    def report(self, text: str) -> None:
        self._last = self.world.discord.message(self.someone.id, text)
        self.repeat()

    @property
    def files(self) -> Sequence[VendorFile]:
        return self.someone.log.files

    def report_file(self, file: VendorFile, text: str) -> None:
        self._last = self.world.discord.sending(self.someone.id, [file], text)
        self.repeat()

    def repeat(self) -> None:
        self.world.discord.post(self._last)

    def press(self, label: str) -> None:
        (button,) = [each for row in self.last.keyboard for each in row if each["text"] == label]
        body = json.dumps(dict(self.world.discord.pressing(self.someone.id, button["callback_data"]))).encode()
        headers = self.world.discord.signed(body)
        door = DiscordDoor(self.world.discord.public_key, self.world.incoming.add)
        door.take(body, headers["x-signature-timestamp"], headers["x-signature-ed25519"], time.time())
        self.world.heard.ring()

    def limit(self, seconds: float) -> None:
        self.world.discord.limit(seconds)

    def broken(self) -> dict[str, int]:
        return dict(self.world.discord.broken)


PHONES: tuple[type[Phone], ...] = (TelegramPhone, SlackPhone, WhatsAppPhone, DiscordPhone)
"""One of each messenger."""
