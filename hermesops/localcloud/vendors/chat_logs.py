"""What the stand-ins of messengers have in common: chats that change, and reports on their way to the users' API."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import structlog

from hermesops.base.waiting import cancel
from hermesops.localcloud.vendors.telegram_chats import Entry
from hermesops.localcloud.vendors.vendor_files import VendorFile

_MOST_ENTRIES = 500
"""Messages of a chat that are kept; older ones are forgotten."""

_MOST_WAITING = 1_000

Report = Mapping[str, Any]
"""What a messenger sends to a webhook."""

log = structlog.get_logger()


class Changes:
    """Counts changes of chats, so that the phone can wait for the next one."""

    def __init__(self) -> None:
        self.number = 0
        self._changed = asyncio.Event()

    def add(self) -> None:
        """Count a change."""
        self.number += 1
        self._changed.set()
        self._changed = asyncio.Event()

    async def after(self, since: int, at_most_s: float) -> None:
        """Wait until a chat has changed after so many changes, or for so many seconds."""
        try:
            async with asyncio.timeout(at_most_s):
                while self.number == since:
                    await self._changed.wait()
        except TimeoutError:
            return


@dataclass
class ChatLog:
    """The messages of a chat.

    Attributes:
        entries: Of both, oldest first.
    """

    changes: Changes
    entries: list[Entry] = field(default_factory=list, repr=False)

    @property
    def texts(self) -> list[str]:
        """The texts that the bot wrote."""
        return [entry.text for entry in self.entries if entry.is_of_bot]

    @property
    def files(self) -> list[VendorFile]:
        """The files that the bot sent."""
        return [entry.file for entry in self.entries if entry.is_of_bot and entry.file]

    def add(
        self, text: str, *, is_of_bot: bool, buttons: Mapping[str, str] | None = None, file: VendorFile | None = None
    ) -> int:
        """Add a message; returns its number, which grows.

        Args:
            buttons: Labels by the bot's names of them.
        """
        number = self.entries[-1].id + 1 if self.entries else 1
        row = [{"text": label, "callback_data": data} for data, label in (buttons or {}).items()]
        self.entries.append(Entry(number, is_of_bot=is_of_bot, text=text, keyboard=[row] if row else (), file=file))
        del self.entries[:-_MOST_ENTRIES]
        self.changes.add()
        return number


class Postbox:
    """Reports on their way to a webhook, one behind the other.

    Args:
        deliver: Sends one until it is taken; ``TimeoutError`` gives it up.
    """

    def __init__(self, deliver: Callable[[Report], Awaitable[object]]) -> None:
        self._deliver = deliver
        self._waiting: asyncio.Queue[Report] = asyncio.Queue(_MOST_WAITING)
        self._delivering: asyncio.Task[None] | None = None

    def open(self) -> None:
        """Deliver reports from now on."""
        self._delivering = asyncio.ensure_future(self._deliver_all())

    async def close(self) -> None:
        """End deliveries; reports that were not taken are lost."""
        if self._delivering is not None:
            await cancel(self._delivering)

    def post(self, report: Report) -> bool:
        """Have a report delivered behind the earlier ones; ``False`` where too many wait."""
        try:
            self._waiting.put_nowait(report)
        except asyncio.QueueFull:
            return False
        return True

    async def _deliver_all(self) -> None:
        while True:
            report = await self._waiting.get()
            try:
                await self._deliver(report)
            except TimeoutError:
                log.warning("report_given_up")
