"""Reads the shapes that pages show, each for all who look at it at once, and names their content.

A page and the stream that watches it read the same shape, so that the stream notices every difference to the page.
"""

import asyncio
import json
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from hermesops.errors import UsageError
from hermesops.model.fleet.health import Condition
from hermesops.model.ids import InstanceId
from hermesops.observability.telemetry.alerts.shown_alerts import KnownAlerts
from hermesops.views import operations as operation_shapes
from hermesops.views.access import certificates as certificate_shapes
from hermesops.views.agents import backups as backup_shapes
from hermesops.views.agents import fleet as fleet_shapes
from hermesops.views.agents import instances as instance_shapes
from hermesops.views.observability import alerts as alert_shapes
from hermesops.views.operations import whose

if TYPE_CHECKING:
    from hermesops.app.container import Container

_FRESH_S = 0.9
"""Seconds for which a shape counts as the present one."""

_SHARE = 4
"""A shape that took long to read counts for so many times as long: reading takes a fifth of the time at most."""

_ALERTS_S = 3.0
"""Seconds for which open alerts count: monitoring is asked no more often."""

_TOPICS = 64
"""Shapes that are kept; the one that was used least recently goes first."""

_LISTED = 200
"""Operations in the list of ended and running ones."""

_OF_INSTANCE = 20
"""Operations on the page of an instance."""

_NEWEST = 5
"""Backups and certificates on the page of an instance."""

_GROWING = frozenset({"for_s", "age_s", "oldest_s"})
"""Fields that grow by themselves: no change."""

_DIGITS = re.compile(r"\d+")

_IN_LIST = frozenset({Condition.DOWN, Condition.SILENT, Condition.DEGRADED, Condition.UNKNOWN})


@dataclass(frozen=True)
class Topic:
    """What a page is about.

    Attributes:
        kind: ``fleet``, ``instances``, ``instance``, ``operations``, ``operation`` or ``alerts``.
        name: Id of the instance or operation; of a list its ``--where``.
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
    """A snapshot, the time until which it counts, and the lock of its readers."""

    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    snapshot: Snapshot | None = None
    until: float = 0.0


@dataclass
class Sources:
    """Reads shapes from the services of one environment."""

    container: "Container"
    _kept: OrderedDict[Topic, _Kept] = field(default_factory=OrderedDict)
    _alerts: KnownAlerts = field(default_factory=KnownAlerts)
    _alerts_until: float = 0.0
    _alerts_lock: asyncio.Lock = field(default_factory=asyncio.Lock)

    async def snapshot(self, topic: Topic) -> Snapshot:
        """The shape of a topic, at most a few seconds old where reading it takes long, else one second.

        Raises:
            UsageError: There is no such topic, instance or operation, or the selector cannot be read.
            HermesError: Its source does not answer.
        """
        kept = self._kept.setdefault(topic, _Kept())
        self._kept.move_to_end(topic)
        while len(self._kept) > _TOPICS:
            self._kept.popitem(last=False)
        async with kept.lock:
            began = time.monotonic()
            if kept.snapshot is None or began >= kept.until:
                try:
                    shape = await self._read(topic)
                except BaseException:
                    self._kept.pop(topic, None)
                    raise
                kept.snapshot = Snapshot(shape, digest_of(shape))
                ended = time.monotonic()
                kept.until = ended + max(_FRESH_S, _SHARE * (ended - began))
            return kept.snapshot

    async def alerts(self) -> KnownAlerts:
        """Open alerts, or why they are not known; none where the environment has no monitoring."""
        if not self.container.monitoring.is_known:
            return KnownAlerts()
        async with self._alerts_lock:
            if time.monotonic() >= self._alerts_until:
                self._alerts = await self.container.alerts().known()
                self._alerts_until = time.monotonic() + _ALERTS_S
            return self._alerts

    async def _read(self, topic: Topic) -> Mapping[str, Any]:
        readers: Mapping[str, Callable[[str], Awaitable[Mapping[str, Any]]]] = {
            "fleet": self._fleet,
            "instances": self._instances,
            "instance": self._instance,
            "operations": self._operations,
            "operation": self._operation,
            "alerts": self._open_alerts,
        }
        if topic.kind not in readers:
            raise UsageError(f"there is no page about {topic.kind!r}")
        return await readers[topic.kind](topic.name)

    async def _fleet(self, where: str) -> Mapping[str, Any]:
        fleet, known = self.container.fleet, await self.alerts()

        def read() -> Mapping[str, Any]:
            status = fleet.status(fleet.selector(where), _IN_LIST, known.open, unread=known.unread)
            return fleet_shapes.status(status)

        return await asyncio.to_thread(read)

    async def _instances(self, where: str) -> Mapping[str, Any]:
        instances, now = self.container.instance_list, self.container.now

        def read() -> Mapping[str, Any]:
            at = now()
            return {"instances": [instance_shapes.listed(row, at) for row in instances.read(instances.selector(where))]}

        return await asyncio.to_thread(read)

    async def _instance(self, instance_id: str) -> Mapping[str, Any]:
        return await asyncio.to_thread(self._instance_now, InstanceId(instance_id))

    def _instance_now(self, instance_id: InstanceId) -> Mapping[str, Any]:
        container = self.container
        instance, at = container.instances.get(instance_id), container.now()
        certificates = container.machine_certificates.of_instance(instance)
        return {
            "instance": instance_shapes.listed(container.instance_list.of(instance), at),
            "operations": [
                operation_shapes.operation(row)
                for row in container.operation_directory.of_instance(instance.id, _OF_INSTANCE)
            ],
            "backups": [
                backup_shapes.backup(row, instance.title) for row in container.backup_rows.list(instance)[:_NEWEST]
            ],
            "certificates": [certificate_shapes.certificate(instance.title, row, at) for row in certificates[:_NEWEST]],
        }

    async def _operations(self, _name: str) -> Mapping[str, Any]:
        directory = self.container.operation_directory

        def read() -> Mapping[str, Any]:
            rows = directory.recent(_LISTED)
            return {
                "operations": [
                    {**operation_shapes.operation(row), "about": operation_shapes.whose(row)} for row in rows
                ]
            }

        return await asyncio.to_thread(read)

    async def _operation(self, operation_id: str) -> Mapping[str, Any]:
        directory = self.container.operation_directory

        def read() -> Mapping[str, Any]:
            history = directory.history(operation_id)
            row = history.operation
            return {
                **operation_shapes.history(history),
                "about": whose(row),
                "instance_id": row.instance_id,
                "has_ended": row.status.has_ended,
            }

        return await asyncio.to_thread(read)

    async def _open_alerts(self, _name: str) -> Mapping[str, Any]:
        known, at = await self.alerts(), await asyncio.to_thread(self.container.now)
        return {
            "has_monitoring": self.container.monitoring.is_known,
            "unread": known.unread or None,
            "alerts": [alert_shapes.alert(alert, at) for alert in known.open],
        }


def digest_of(shape: Mapping[str, Any]) -> str:
    """A name of a shape's content; ages, and figures in reasons, which contain ages, make no difference."""
    text = json.dumps(_lasting(shape), default=str, sort_keys=True)
    return sha256(text.encode()).hexdigest()[:16]


def _lasting(value: Any, name: str = "") -> Any:  # noqa: ANN401 - as JSON
    match value:
        case Mapping():
            return {key: _lasting(part, str(key)) for key, part in value.items() if key not in _GROWING}
        case list() | tuple():
            return [_lasting(part, name) for part in value]
        case str() if name == "reasons":
            return _DIGITS.sub("#", value)
        case _:
            return value
