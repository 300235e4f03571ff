"""How often a bot may write: per chat, and in all. Pure: the clock is the caller's."""

from collections import deque
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Pace:
    """A messenger's limits.

    Attributes:
        chat_s: Seconds between two messages of one chat.
        a_second: Messages of all chats in a second.
        burst: Messages of one chat that may come at once, if it had fewer before.
    """

    chat_s: float
    a_second: int
    burst: int = 1


_MOST_CHATS = 100_000


@dataclass
class Budget:
    """The one budget of a bot.

    Attributes:
        pace: Its messenger's limits.
    """

    pace: Pace
    _full: dict[str, float] = field(default_factory=dict)
    """When each chat has its whole burst again."""

    _recent: deque[float] = field(default_factory=deque)
    _held_until: float = float("-inf")

    def hold(self, until: float) -> None:
        """Take nothing before a time of the same clock."""
        self._held_until = max(self._held_until, until)

    def held_s(self, now: float) -> float:
        """Seconds for which nothing is taken; 0 for none."""
        return max(0.0, self._held_until - now)

    def take(self, chat: str, now: float) -> bool:
        """Whether a message may be sent to a chat now; counts it then.

        Args:
            now: Seconds of a clock that does not go back.
        """
        if now < self._held_until:
            return False
        while self._recent and self._recent[0] <= now - 1.0:
            self._recent.popleft()
        full_at = max(now, self._full.get(chat, float("-inf")))
        if len(self._recent) >= self.pace.a_second or full_at - now > (self.pace.burst - 1) * self.pace.chat_s:
            return False
        self._recent.append(now)
        self._full.pop(chat, None)
        self._full[chat] = full_at + self.pace.chat_s
        if len(self._full) > _MOST_CHATS:
            del self._full[next(iter(self._full))]
        return True
