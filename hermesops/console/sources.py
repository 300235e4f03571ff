"""Reads the shapes that pages show, each for all who look at it at once, and names their content.

A page and the stream that watches it read the same shape, so that the stream notices every difference to the page.
"""

import asyncio
import json
import math
import re
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hermesops.console.topics import READERS, fleet
from hermesops.console.topics.listings import LISTINGS
from hermesops.errors import Hint, UsageError
from hermesops.observability.telemetry.alerts.shown_alerts import KnownAlerts, KnownSilences
from hermesops.observability.telemetry.metrics.history import History, Past, history_of
from hermesops.views.observability import alerts as alert_shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.app.container import Container
    from hermesops.observability.telemetry.client import MonitoringClient

_FRESH_S = 0.9
"""Seconds for which a shape counts as the present one."""

_SHARE = 4
"""Shapes count for so many times as long as reading all of them took the processor: a fifth of its time at most."""

_LONGEST_S = 6.0
"""Seconds for which a shape counts at most, however much there is to read: a page that is not stale shows no older one.
Beyond, reading takes more than its share."""

_WATCHED_S = 10.0
"""Seconds since a shape was last asked for, for which some page is taken to show it."""

_ALERTS_S = 3.0
"""Seconds for which open alerts count: monitoring is asked no more often."""

_ALERTS_WAIT_S = 0.5
"""Seconds for which a page waits for monitoring; then it shows the alerts that were known last."""

_ALERTS_OLDEST_S = 10.0
"""Seconds for which alerts are shown while monitoring is asked in vain; then they are unknown."""

_HISTORY_S = 60.0
"""Seconds for which a history of the fleet counts: it grows by a point each ten minutes."""

_TOPICS = 256
"""Shapes that are kept, each of a page's rows at most; the one that was used least recently goes first."""

_GROWING = re.compile(r'"(?:for_s|age_s|oldest_s)": [^,}]+')
"""Fields of JSON that grow by themselves: no change. A fleet's shape is too large to visit each of its values."""

_REASONS = re.compile(r'"reasons": (?:"(?:[^"\\]|\\.)*"|\[(?:[^"\]]|"(?:[^"\\]|\\.)*")*\])')
"""Reasons in JSON: a text, or texts."""

_DIGITS = re.compile(r"\d+")


_SILENCES = 200
"""Silences that a page lists, the one that ends first before others."""


@dataclass(frozen=True)
class Topic:
    """What a page is about.

    Attributes:
        kind: ``fleet``, ``alerts``, or one of ``READERS``.
        name: Id of the subject; of a list its ``--where``; of the fleet its filters, as an address has them.
    """

    kind: str
    name: str = ""


@dataclass(frozen=True)
class Snapshot:
    """A shape at one time.

    Attributes:
        digest: Of its content, without ages.
    """

    shape: Mapping[str, Any]
    digest: str


@dataclass
class _Kept:
    """A snapshot, the time until which it counts, and the lock of its readers.

    Attributes:
        took_s: Seconds for which reading it took the processor; waiting for others is none of them.
        asked_at: When it was last asked for.
    """

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    snapshot: Snapshot | None = None
    until: float = 0.0
    took_s: float = 0.0
    asked_at: float = 0.0


@dataclass
class Sources:
    """Reads shapes from the services of one environment.

    Attributes:
        lists: Names of the lists that may be read.
    """

    container: "Container"
    lists: Collection[str] = frozenset(LISTINGS)
    _kept: OrderedDict[Topic, _Kept] = field(default_factory=OrderedDict)
    _alerts: KnownAlerts = field(default_factory=lambda: KnownAlerts(unread="monitoring has not answered yet"))
    _alerts_at: float = -math.inf
    _asking: "asyncio.Task[KnownAlerts] | None" = None
    _silences: KnownSilences = field(default_factory=lambda: KnownSilences(unread="monitoring has not answered yet"))
    _asking_silences: "asyncio.Task[KnownSilences] | None" = None
    _histories: dict[Past, tuple[History, float]] = field(default_factory=dict)
    _histories_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _monotonic: "Callable[[], float]" = time.monotonic

    async def snapshot(self, topic: Topic) -> Snapshot:
        """The shape of a topic, at most a few seconds old where reading it takes long, else one second.

        Raises:
            UsageError: There is no such topic, instance or operation, or the selector cannot be read.
            HermesError: Its source does not answer.
        """
        kept = self._kept.setdefault(topic, _Kept())
        kept.asked_at = self._monotonic()
        self._kept.move_to_end(topic)
        while len(self._kept) > _TOPICS:
            self._kept.popitem(last=False)
        async with kept.lock:
            began = self._monotonic()
            if kept.snapshot is None or began >= kept.until:
                try:
                    shape, digest, took_s = await self._read(topic)
                except BaseException:
                    self._kept.pop(topic, None)
                    raise
                kept.snapshot, kept.took_s = Snapshot(shape, digest), took_s
                counts_s = max(_FRESH_S, min(_LONGEST_S, _SHARE * self._all_take_s(began)))
                kept.until = self._monotonic() + counts_s
            return kept.snapshot

    def _all_take_s(self, now: float) -> float:
        """Seconds of the processor that the shapes of all pages that are open took last."""
        return sum(kept.took_s for kept in self._kept.values() if now - kept.asked_at < _WATCHED_S)

    async def alerts(self) -> KnownAlerts:
        """Open alerts, or why they are not known; none where the environment has no monitoring."""
        if not self.container.monitoring.is_known:
            return KnownAlerts()
        if self._asking is None and self._monotonic() >= self._alerts_at + _ALERTS_S:
            self._asking = asyncio.create_task(self.container.alerts().known())
        if self._asking is not None:
            await asyncio.wait([self._asking], timeout=_ALERTS_WAIT_S)
        self._take_alerts()
        if self._asking is not None and self._monotonic() >= self._alerts_at + _ALERTS_OLDEST_S:
            return KnownAlerts(unread=self._alerts.unread or f"monitoring has not answered for {_ALERTS_OLDEST_S:g} s")
        return self._alerts

    def _take_alerts(self) -> None:
        """Keep the answer of monitoring, once it is there; the first of those who wait for it does."""
        if self._asking is not None and self._asking.done():
            asking, self._asking = self._asking, None
            self._alerts, self._alerts_at = asking.result(), self._monotonic()

    async def history(self, past: Past) -> History:
        """A history of the whole fleet, a minute old at most.

        Raises:
            HermesError: Monitoring cannot be addressed.
        """
        async with self._histories_lock:
            kept = self._histories.get(past)
            if kept is None or self._monotonic() >= kept[1]:
                now = await asyncio.to_thread(self.container.now)
                kept = await history_of(await self.monitoring(), past, now), self._monotonic() + _HISTORY_S
                self._histories[past] = kept
            return kept[0]

    async def monitoring(self) -> "MonitoringClient | None":
        """The platform's monitoring; ``None`` where the environment has none. Raises as ``history``."""
        monitoring = self.container.monitoring
        return await asyncio.to_thread(monitoring.client) if monitoring.is_known else None

    async def _read(self, topic: Topic) -> tuple[Mapping[str, Any], str, float]:
        """A shape, its digest, and the seconds of the processor that both took."""
        if topic.kind == "listing" and topic.name.partition("?")[0] not in self.lists:
            raise UsageError("this console does not have this list")
        if topic.kind == "fleet":
            read = partial(fleet.shown, self.container, topic.name, await self.alerts())
        elif topic.kind == "alerts":
            read = partial(self._open_alerts, await self.alerts(), await self._known_silences())
        elif reader := READERS.get(topic.kind):
            read = partial(reader, self.container, topic.name)
        else:
            raise UsageError(f"there is no page about {topic.kind!r}")
        return await asyncio.to_thread(_timed, read)

    async def _known_silences(self) -> KnownSilences:
        """Silences that hold or are to come, or why they are not known; an answer that comes later is shown later."""
        if not self.container.monitoring.is_known:
            return KnownSilences()
        if self._asking_silences is None:
            self._asking_silences = asyncio.create_task(self.container.alerts().known_silences())
        asking = self._asking_silences
        await asyncio.wait([asking], timeout=_ALERTS_WAIT_S)
        if asking.done():
            self._silences, self._asking_silences = asking.result(), None
        return self._silences

    def _open_alerts(self, known: KnownAlerts, silences: KnownSilences) -> Mapping[str, Any]:
        at = self.container.now()
        users = self.container.alerts().users() if silences.silences else {}
        first = silences.silences[:_SILENCES]
        return {
            "has_monitoring": self.container.monitoring.is_known,
            "unread": known.unread or None,
            "alerts": [alert_shapes.alert(alert, at) for alert in known.open],
            "silences": [{**alert_shapes.silence(row), "what": alert_shapes.matched(row, users)} for row in first],
            "silence_count": len(silences.silences),
            "silences_unread": silences.unread or None,
        }


def _timed(read: "Callable[[], Mapping[str, Any]]") -> tuple[Mapping[str, Any], str, float]:
    """A shape, its digest, and the seconds for which this thread had the processor."""
    began = time.thread_time()
    shape = read()
    digest = digest_of(shape)
    return shape, digest, time.thread_time() - began


def digest_of(shape: Mapping[str, Any]) -> str:
    """A name of a shape's content; ages, and figures in reasons, which contain ages, make no difference."""
    text = _GROWING.sub("", json.dumps(shape, default=_plain, sort_keys=True))
    lasting = _REASONS.sub(lambda reasons: _DIGITS.sub("#", reasons[0]), text)
    return sha256(lasting.encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """A value that JSON does not have: a hint by its parts, as quoting thousands of commands for a shell takes long."""
    return value.parts if isinstance(value, Hint) else str(value)
