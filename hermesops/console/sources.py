"""Reads the shapes that pages show, each for all who look at it at once, and names their content.

A page and the stream that watches it read the same shape, so that the stream notices every difference to the page.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hermesops.console.topics import READERS, fleet
from hermesops.console.topics.listings import LISTINGS
from hermesops.errors import Hint, UsageError
from hermesops.observability.telemetry.alerts.shown_alerts import KnownAlerts
from hermesops.observability.telemetry.metrics.history import History, Past, history_of
from hermesops.views.observability import alerts as alert_shapes

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.app.container import Container
    from hermesops.observability.telemetry.client import MonitoringClient

_FRESH_S = 0.9
"""Seconds for which a shape counts as the present one."""

_SHARE = 4
"""Shapes count for so many times as long as reading all of them took: reading takes a fifth of the time at most."""

_WATCHED_S = 10.0
"""Seconds since a shape was last asked for, for which some page is taken to show it."""

_ALERTS_S = 3.0
"""Seconds for which open alerts count: monitoring is asked no more often."""

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
        took_s: Seconds for which it was read.
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
    _alerts: KnownAlerts = field(default_factory=KnownAlerts)
    _alerts_until: float = 0.0
    _alerts_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
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
                    shape = await self._read(topic)
                except BaseException:
                    self._kept.pop(topic, None)
                    raise
                kept.snapshot = Snapshot(shape, digest_of(shape))
                ended = self._monotonic()
                kept.took_s = ended - began
                kept.until = ended + max(_FRESH_S, _SHARE * self._all_take_s(ended))
            return kept.snapshot

    def _all_take_s(self, now: float) -> float:
        """Seconds for which the shapes of all pages that are open were last read."""
        return sum(kept.took_s for kept in self._kept.values() if now - kept.asked_at < _WATCHED_S)

    async def alerts(self) -> KnownAlerts:
        """Open alerts, or why they are not known; none where the environment has no monitoring."""
        if not self.container.monitoring.is_known:
            return KnownAlerts()
        async with self._alerts_lock:
            if self._monotonic() >= self._alerts_until:
                self._alerts = await self.container.alerts().known()
                self._alerts_until = self._monotonic() + _ALERTS_S
            return self._alerts

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

    async def _read(self, topic: Topic) -> Mapping[str, Any]:
        if topic.kind == "fleet":
            return await asyncio.to_thread(fleet.shown, self.container, topic.name, await self.alerts())
        if topic.kind == "listing" and topic.name.partition("?")[0] not in self.lists:
            raise UsageError("this console has no such list")
        if topic.kind == "alerts":
            return await self._open_alerts()
        reader = READERS.get(topic.kind)
        if reader is None:
            raise UsageError(f"there is no page about {topic.kind!r}")
        return await asyncio.to_thread(reader, self.container, topic.name)

    async def _open_alerts(self) -> Mapping[str, Any]:
        known, at = await self.alerts(), await asyncio.to_thread(self.container.now)
        return {
            "has_monitoring": self.container.monitoring.is_known,
            "unread": known.unread or None,
            "alerts": [alert_shapes.alert(alert, at) for alert in known.open],
            **await self._silences(),
        }

    async def _silences(self) -> Mapping[str, Any]:
        """Silences that hold or are to come, or why they are not known."""
        if not self.container.monitoring.is_known:
            return {"silences": [], "silence_count": 0, "silences_unread": None}
        alerts = self.container.alerts()
        known = await alerts.known_silences()
        users = await asyncio.to_thread(alerts.users) if known.silences else {}
        first = known.silences[:_SILENCES]
        rows = [{**alert_shapes.silence(row), "what": alert_shapes.matched(row, users)} for row in first]
        return {"silences": rows, "silence_count": len(known.silences), "silences_unread": known.unread or None}


def digest_of(shape: Mapping[str, Any]) -> str:
    """A name of a shape's content; ages, and figures in reasons, which contain ages, make no difference."""
    text = _GROWING.sub("", json.dumps(shape, default=_plain, sort_keys=True))
    lasting = _REASONS.sub(lambda reasons: _DIGITS.sub("#", reasons[0]), text)
    return sha256(lasting.encode()).hexdigest()[:16]


def _plain(value: object) -> object:
    """A value that JSON does not have: a hint by its parts, as quoting thousands of commands for a shell takes long."""
    return value.parts if isinstance(value, Hint) else str(value)
