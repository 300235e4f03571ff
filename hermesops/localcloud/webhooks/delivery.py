"""Delivers events to their receivers: each is written down first, then tried until it is taken or given up.

The vendor's order, patience and pauses are unknown; a receiver must bear all of them. It must not reach anything but
this computer's own loopback.
"""

import asyncio
import json
from collections.abc import Callable
from uuid import uuid4

import httpx
import structlog

from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.server.background import Background
from hermesops.localcloud.store.clock import now, seconds_until
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import DeliveryRow, MachineRow, MachineStatus, WebhookRow
from hermesops.localcloud.webhooks import events
from hermesops.waiting import pause

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_TIMEOUT_S = 10.0
_HEARTBEAT_EVERY_S = 60.0
_AT_ONCE = 8

log = structlog.get_logger()


class Webhooks:
    """Tells receivers what becomes of machines; the fleet's audience.

    Args:
        store: Receivers, and what is still to be delivered.
        faults: What goes wrong on order.
        address_of: A machine's own address, once it has one.
    """

    def __init__(self, store: Store, faults: Faults, address_of: Callable[[MachineRow], object]) -> None:
        self._store = store
        self._faults = faults
        self._address_of = address_of
        self._http = httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._under_way = Background()

    def open(self) -> None:
        """Go on with what was not delivered, and begin to beat."""
        for row in self._store.find(DeliveryRow):
            self._begin(row)
        self._under_way.begin(self._beat(), "heartbeats")

    async def close(self) -> None:
        """Stop; what is not delivered is by the next server."""
        await self._under_way.close()
        await self._http.aclose()

    def machine_changed(self, before: MachineRow | None, after: MachineRow) -> None:
        """Tell of a machine that was ordered or changed."""
        if self._store.find(WebhookRow, active=True):
            address = self._address_of(after)
            for kind, body in events.changes(before, after, str(address) if address else None):
                self._tell(kind, body, after.names)

    def machine_gone(self, row: MachineRow) -> None:
        """Tell of a machine's end."""
        self._tell(*events.gone(row), row.names)

    def test(self, webhook: WebhookRow) -> None:
        """Send one receiver an event that is about no machine."""
        kind, body = events.test()
        self._send(webhook, kind, body, ())

    def _tell(self, kind: str, body: str, names: tuple[str, ...]) -> None:
        for webhook in self._store.find(WebhookRow, active=True):
            if {"*", kind} & set(json.loads(webhook.events)):
                self._send(webhook, kind, body, names)

    def _send(self, webhook: WebhookRow, kind: str, body: str, names: tuple[str, ...]) -> None:
        if self._faults.take(FaultKind.WEBHOOK_LOST, names, path=kind):
            return
        copies = 2 if self._faults.take(FaultKind.WEBHOOK_TWICE, names, path=kind) else 1
        late = self._faults.take(FaultKind.WEBHOOK_LATE, names, path=kind)
        signed = not self._faults.take(FaultKind.WEBHOOK_UNSIGNED, names, path=kind)
        for _ in range(copies):
            due_at = now(plus_s=late.seconds) if late else ""
            row = DeliveryRow(str(uuid4()), webhook.id, body, signed=signed, due_at=due_at)
            self._store.add(row)
            self._begin(row)

    def _begin(self, row: DeliveryRow) -> None:
        self._under_way.begin(self._deliver(row), f"delivery-{row.id}")

    async def _deliver(self, row: DeliveryRow) -> None:
        if row.due_at:
            await pause(seconds_until(row.due_at))
        for tries, patience_s in enumerate((*_PAUSES_S, 0.0)[row.tries :], row.tries):
            webhook = self._store.get(WebhookRow, row.webhook_id)
            if webhook is None or await self._is_taken(webhook, row):
                break
            self._store.update(DeliveryRow, row.id, tries=tries + 1)
            await pause(patience_s)
        else:
            log.warning("event_given_up", webhook=row.webhook_id)
        self._store.remove(DeliveryRow, row.id)

    async def _is_taken(self, webhook: WebhookRow, row: DeliveryRow) -> bool:
        body = row.body.encode()
        headers = {"content-type": "application/json", "user-agent": "JustAVPS-Webhooks"}
        if row.signed:
            headers |= events.signatures(webhook.secret, body)
        try:
            async with self._slots:
                answer = await self._http.post(webhook.url, content=body, headers=headers)
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def _beat(self) -> None:
        while True:
            await pause(_HEARTBEAT_EVERY_S)
            if self._store.find(WebhookRow, active=True):
                for row in self._store.find(MachineRow, status=MachineStatus.READY):
                    self._tell(*events.heartbeat(row), row.names)
