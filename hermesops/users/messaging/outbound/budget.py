"""How often a bot may write: per chat, and in all. Pure: the clock is the caller's."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """A messenger's limits.

    Attributes:
        chat_s: Seconds between two messages of one chat.
        a_second: Messages of all chats in a second.
    """

    chat_s: float
    a_second: int


_MOST_CHATS = 100_000


@dataclass
class Budget:
    """The one budget of a bot.

    Attributes:
        pace: Its messenger's limits.
    """

    pace: Pace
    _last: dict[str, float] = field(default_factory=dict)
    _recent: deque[float] = field(default_factory=deque)
    _held_until: float = float("-inf")

    def hold(self, until: float) -> None:
        """Take nothing before a time of the same clock."""
        self._held_until = max(self._held_until, until)

    def take(self, chat: str, now: float) -> bool:
        """Whether a message may be sent to a chat now; counts it then.

        Args:
            now: Seconds of a clock that does not go back.
        """
        if now < self._held_until:
            return False
        while self._recent and self._recent[0] <= now - 1.0:
            self._recent.popleft()
        if len(self._recent) >= self.pace.a_second or now - self._last.get(chat, float("-inf")) < self.pace.chat_s:
            return False
        self._recent.append(now)
        self._last.pop(chat, None)
        self._last[chat] = now
        if len(self._last) > _MOST_CHATS:
            del self._last[next(iter(self._last))]
        return True
