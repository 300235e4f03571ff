"""Webhooks: the events, their signatures, their delivery, and the handlers of ``/webhooks``.

Each event is written down first, then tried until its receiver takes it or the tries are used up. The vendor's order,
number of tries and pauses are unknown; a receiver must bear all of them. Only this computer's loopback is ever sent to.
"""

import asyncio
import hashlib
import hmac
import json
import re
import secrets
from collections.abc import Callable
from dataclasses import asdict
from uuid import uuid4

import httpx
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.network.http import own_client
from hermesops.base.waiting import pause
from hermesops.localcloud.api.problem import Problem, found
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.server.background import Background
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import DeliveryRow, MachineRow, MachineStatus, WebhookRow, now, seconds_until

_STAGE_CHANGED = "machine.stage_changed"
_STATUS_CHANGED = "machine.status_changed"
_HEARTBEAT = "machine.heartbeat"
_TEST = "machine.test"
EVENT_KINDS = ("*", _STAGE_CHANGED, _STATUS_CHANGED, _HEARTBEAT)
"""Kinds that a receiver can ask for. Source: published SDK 2026.3.6; its README names others, which do not exist."""

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
RECEIVER_URL = rf"^https?://(127\.0\.0\.1|localhost|\[::1\])(:{_PORT})?(/[!-~]*)?$"
"""URLs that receivers may have: this computer's loopback alone, whatever path."""

_NO_MACHINE = "00000000-0000-0000-0000-000000000000"
"""Machine id of a test event. Source: a public receiver's code, 2026."""

_PAUSES_S = (0.5, 1.0, 2.0, 4.0, 8.0)
_TIMEOUT_S = 10.0
_HEARTBEAT_EVERY_S = 60.0
_AT_ONCE = 8

log = structlog.get_logger()


class Webhooks:
    """Sends receivers an event for each change of a machine, and handles ``/webhooks``.

    Args:
        address_of: Gives a machine's own address, once it has one.
    """

    def __init__(self, store: Store, faults: Faults, address_of: Callable[[MachineRow], object]) -> None:
        self._store = store
        self._faults = faults
        self._address_of = address_of
        self._http = own_client(timeout=_TIMEOUT_S)
        self._slots = asyncio.Semaphore(_AT_ONCE)
        self._background = Background()

    def open(self) -> None:
        """Continue deliveries that an earlier server began, and send heartbeats from now on."""
        for row in self._store.find(DeliveryRow):
            self._begin(row)
        self._background.begin(self._send_heartbeats(), "heartbeats")

    async def close(self) -> None:
        """Stop delivering; the next server delivers the rest."""
        await self._background.close()
        await self._http.aclose()

    def routes(self) -> list[Route]:
        """The routes of ``/webhooks`` and below."""
        return [
            Route("/webhooks", self._list, methods=["GET"]),
            Route("/webhooks", self._create, methods=["POST"]),
            Route("/webhooks/{webhook_id}", self._delete, methods=["DELETE"]),
        ]

    def machine_changed(self, before: MachineRow | None, after: MachineRow) -> None:
        """Send the events of a machine that was ordered (``before`` is ``None``) or changed."""
        if not self._store.find(WebhookRow, active=True):
            return
        if before is None or before.stage != after.stage:
            address = self._address_of(after)
            metadata = {"ip": str(address)} if address and after.stage == "server_created" else {}
            self._send_to_all(_STAGE_CHANGED, after, stage=after.stage, metadata=metadata)
        if before is None or shown_status(before) != shown_status(after):
            self._send_to_all(_STATUS_CHANGED, after, status=shown_status(after), message=after.message)

    def machine_gone(self, row: MachineRow) -> None:
        """Send the event of a completely removed machine."""
        self._send_to_all(_STATUS_CHANGED, row, status=MachineStatus.DELETED)

    def test(self, webhook: WebhookRow) -> None:
        """Send one receiver an event that is about no machine."""
        self._send(webhook, _TEST, _event(_TEST, _NO_MACHINE), ())

    def _send_to_all(self, kind: str, row: MachineRow, **fields: object) -> None:
        body = _event(kind, row.id, **fields)
        for webhook in self._store.find(WebhookRow, active=True):
            if {"*", kind} & set(json.loads(webhook.events)):
                self._send(webhook, kind, body, row.names)

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
        self._background.begin(self._deliver(row), f"delivery-{row.id}")

    async def _deliver(self, row: DeliveryRow) -> None:
        if row.due_at:
            await pause(seconds_until(row.due_at))
        for tries, pause_s in enumerate((*_PAUSES_S, 0.0)[row.tries :], row.tries):
            webhook = self._store.get(WebhookRow, row.webhook_id)
            if webhook is None or await self._post(webhook, row):
                break
            self._store.update(DeliveryRow, row.id, tries=tries + 1)
            await pause(pause_s)
        else:
            log.warning("event_given_up", webhook=row.webhook_id)
        self._store.remove(DeliveryRow, row.id)

    async def _post(self, webhook: WebhookRow, row: DeliveryRow) -> bool:
        """Try to deliver once; return whether the receiver accepted the event."""
        body = row.body.encode()
        headers = {"content-type": "application/json", "user-agent": "JustAVPS-Webhooks"}
        if row.signed:
            # HMAC-SHA256 in hexadecimal. The published schema says ``X-Signature-256``; a production receiver reads
            # ``X-JustAVPS-Signature`` without prefix. Which one is live is unknown, so both are sent, the first with
            # the prefix that is usual for its name.
            digest = hmac.new(webhook.secret.encode(), body, hashlib.sha256).hexdigest()
            headers |= {"x-signature-256": f"sha256={digest}", "x-justavps-signature": digest}
        try:
            async with self._slots:
                answer = await self._http.post(webhook.url, content=body, headers=headers)
        except httpx.HTTPError:
            return False
        return answer.is_success

    async def _send_heartbeats(self) -> None:
        while True:
            await pause(_HEARTBEAT_EVERY_S)
            if self._store.find(WebhookRow, active=True):
                for row in self._store.find(MachineRow, status=MachineStatus.READY):
                    self._send_to_all(_HEARTBEAT, row)

    # Handlers

    async def _list(self, _: Request) -> Response:
        return JSONResponse({"webhooks": [_to_wire(row) for row in self._store.find(WebhookRow)]})

    async def _create(self, request: Request) -> Response:
        body = object_of(await request.body())
        url, kinds = text(body, "url"), body.get("events")
        # The vendor takes HTTPS; here receivers are on this computer, where HTTP is safe too.
        if re.fullmatch(RECEIVER_URL, url) is None:
            raise Problem(400, "url: the local world sends events to receivers on this computer's loopback only")
        if not isinstance(kinds, list) or not kinds or not all(kind in EVENT_KINDS for kind in kinds):
            raise Problem(400, f"events: a list of {', '.join(EVENT_KINDS)} is expected")
        secret = text(body, "secret", "") or f"whsec_{secrets.token_urlsafe(32)}"
        row = WebhookRow(str(uuid4()), url, json.dumps(kinds), secret, now())
        self._store.add(row)
        return JSONResponse({**_to_wire(row), "secret": row.secret}, status_code=201)

    async def _delete(self, request: Request) -> Response:
        webhook_id = request.path_params["webhook_id"]
        self._store.remove(WebhookRow, found(self._store.get(WebhookRow, webhook_id), "Webhook").id)
        return Response(status_code=204)


def _event(kind: str, machine_id: str, **fields: object) -> str:
    """The body of an event; empty fields are left out."""
    data = {"machineId": machine_id, "event": kind, **{name: value for name, value in fields.items() if value}}
    return json.dumps({"event": kind, "data": {**data, "timestamp": now()}}, separators=(",", ":"))


def _to_wire(row: WebhookRow) -> dict[str, object]:
    shown = {name: value for name, value in asdict(row).items() if name != "secret"}
    return {**shown, "events": json.loads(row.events)}
