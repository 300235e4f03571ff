"""Chats of people with the bot of the stand-in of Telegram, and how often the bot may write to one."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from hermesops.localcloud.vendors.vendor_files import VendorFile

_BURST = 3
"""Messages of a chat that may come faster than one a second."""

_MOST_ENTRIES = 500
"""Messages of a chat that are kept; older ones are forgotten."""

TYPING_S = 5.0
"""For how long "typing" is shown. Source: Telegram Bot API, ``sendChatAction``."""


@dataclass(frozen=True)
class Entry:
    """A message of a chat.

    Attributes:
        id: Grows from message to message.
        entities: Formatting, as the Bot API has it: ranges of UTF-16 units.
        keyboard: Rows of buttons below the text.
        edits: How often the bot has changed it.
        file: Whose name is in the text.
    """

    id: int
    is_of_bot: bool
    text: str = field(repr=False)
    entities: Sequence[Mapping[str, Any]] = ()
    keyboard: Sequence[Sequence[Mapping[str, Any]]] = ()
    edits: int = 0
    file: VendorFile | None = None


@dataclass
class Chat:
    """A person's chat with the bot.

    Attributes:
        entries: Messages of both, oldest first.
        typing: How often the bot showed that it writes.
        typing_until: Until when that is shown, by the stand-in's clock.
        is_blocked: Whether the person has blocked the bot.
    """

    person: int
    name: str
    entries: list[Entry] = field(default_factory=list, repr=False)
    typing: int = 0
    typing_until: float = 0.0
    is_blocked: bool = False
    _recent: deque[float] = field(default_factory=deque)
    _limited_until: float = 0.0
    _ignored: int = 0

    @property
    def texts(self) -> list[str]:
        """The texts that the bot wrote, as they are now."""
        return [entry.text for entry in self.entries if entry.is_of_bot]

    @property
    def files(self) -> list[VendorFile]:
        """The files that the bot sent."""
        return [entry.file for entry in self.entries if entry.is_of_bot and entry.file]

    def add(self, entry: Entry) -> None:
        """Add a message; a message of the bot ends its typing."""
        self.entries.append(entry)
        del self.entries[:-_MOST_ENTRIES]
        if entry.is_of_bot:
            self.typing_until = 0.0

    def edit(self, id_: int, content: Entry) -> bool:
        """Change a message of the bot; ``False`` where there is none of this id."""
        for index, entry in enumerate(self.entries):
            if entry.id == id_ and entry.is_of_bot:
                self.entries[index] = replace(content, id=id_, edits=entry.edits + 1)
                return True
        return False

    def limit_s(self, now: float) -> int:
        """Seconds that the bot has to wait; more each time that it did not. 0: it may write."""
        if now < self._limited_until:
            self._ignored += 1
            self._limited_until = now + 2.0**self._ignored
            return max(1, round(self._limited_until - now))
        while self._recent and self._recent[0] < now - _BURST:
            self._recent.popleft()
        if len(self._recent) >= _BURST:
            self._limited_until = now + 1.0
            return 1
        self._recent.append(now)
        self._ignored = 0
        return 0
