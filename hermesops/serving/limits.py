"""Limits per user: how often each kind of request, and how many streams at once. In this process, by a clock."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

Kind = Literal["read", "change", "turn", "file"]


class TooManyError(Exception):
    """The user asks too often.

    Attributes:
        retry_after_s: Seconds until the next request may succeed.
    """

    def __init__(self, words: str, retry_after_s: int) -> None:
        super().__init__(words)
        self.retry_after_s = retry_after_s


@dataclass(frozen=True)
class Rate:
    """So many at once, and so many a second in the long run."""

    burst: float
    per_s: float


RATES: dict[Kind, Rate] = {
    "read": Rate(120, 20),
    "change": Rate(30, 1),
    "turn": Rate(10, 0.5),
    "file": Rate(10, 0.5),
}
MOST_STREAMS = 8
"""Streams of events that a user may have open: some tabs, and a phone."""

_MOST_USERS = 50_000


@dataclass
class _Bucket:
    left: float
    at: float


class Limits:
    """Counts users' requests.

    Args:
        monotonic: Seconds of a clock that never goes back.
    """

    def __init__(self, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._monotonic = monotonic
        self._buckets: dict[tuple[str, Kind], _Bucket] = {}
        self._streams: dict[str, int] = {}

    def admit(self, user: str, kind: Kind) -> None:
        """Count a request.

        Raises:
            TooManyError: See there.
        """
        rate, now = RATES[kind], self._monotonic()
        bucket = self._buckets.pop((user, kind), None) or _Bucket(rate.burst, now)
        bucket.left = min(rate.burst, bucket.left + (now - bucket.at) * rate.per_s)
        bucket.at = now
        self._buckets[user, kind] = bucket  # the last used one is the last
        if len(self._buckets) > _MOST_USERS:
            del self._buckets[next(iter(self._buckets))]
        if bucket.left < 1:
            raise TooManyError("too many requests", max(1, round((1 - bucket.left) / rate.per_s)))
        bucket.left -= 1

    def refuse_stream(self, user: str) -> None:
        """Refuse a further stream of events.

        Raises:
            TooManyError: The user has too many open.
        """
        if self._streams.get(user, 0) >= MOST_STREAMS:
            raise TooManyError(f"more than {MOST_STREAMS} streams are open", 5)

    @contextmanager
    def stream(self, user: str) -> Iterator[None]:
        """Count a stream of events while it is open."""
        self._streams[user] = self._streams.get(user, 0) + 1
        try:
            yield
        finally:
            self._streams[user] -= 1
            if not self._streams[user]:
                del self._streams[user]
