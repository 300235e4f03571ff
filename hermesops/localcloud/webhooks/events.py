"""What webhooks carry and how it is signed. Pure."""

import hashlib
import hmac
import json

from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.rows import MachineRow, MachineStatus

STAGE_CHANGED = "machine.stage_changed"
STATUS_CHANGED = "machine.status_changed"
HEARTBEAT = "machine.heartbeat"
TEST = "machine.test"
WANTED = ("*", STAGE_CHANGED, STATUS_CHANGED, HEARTBEAT)
"""What a receiver can ask for. Source: published SDK 2026.3.6; its README names others, which do not exist."""

_PORT = "([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5])"
RECEIVER = rf"^https?://(127\.0\.0\.1|localhost|\[::1\])(:{_PORT})?(/[!-~]*)?$"
"""Where a local world sends events to: this computer's loopback alone, whatever path."""

_NOBODY = "00000000-0000-0000-0000-000000000000"


def changes(before: MachineRow | None, after: MachineRow, ip: str | None) -> list[tuple[str, str]]:
    """Kind and body of the events that a change of a machine's row makes, in their order.

    Args:
        before: ``None`` for a machine that was just ordered.
        after: What it is now.
        ip: Its address, once it has one.
    """
    events = []
    if before is None or before.stage != after.stage:
        metadata: dict[str, object] = {"ip": ip} if after.stage == "server_created" else {}
        events.append(_event(STAGE_CHANGED, after.id, stage=after.stage, metadata=metadata))
    if before is None or shown_status(before) != shown_status(after):
        events.append(_event(STATUS_CHANGED, after.id, status=shown_status(after), message=after.message))
    return events


def gone(row: MachineRow) -> tuple[str, str]:
    """The event of a machine's end."""
    return _event(STATUS_CHANGED, row.id, status=MachineStatus.DELETED)


def heartbeat(row: MachineRow) -> tuple[str, str]:
    """The event of each minute of a machine that is up."""
    return _event(HEARTBEAT, row.id)


def test() -> tuple[str, str]:
    """An event that is about no machine. Source: a public receiver's code, 2026: the id is all zeros."""
    return _event(TEST, _NOBODY)


def signatures(secret: str, body: bytes) -> dict[str, str]:
    """The headers that prove who sent a body: HMAC-SHA256 over it, in hexadecimal.

    Source: the published schema says ``X-Signature-256``; a production receiver reads ``X-JustAVPS-Signature`` without
    prefix. Which one is live is unknown, so both are sent, the first with the prefix that is usual for its name.
    """
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {"x-signature-256": f"sha256={digest}", "x-justavps-signature": digest}


def _event(kind: str, machine_id: str, **said: object) -> tuple[str, str]:
    data = {"machineId": machine_id, "event": kind, **{name: value for name, value in said.items() if value}}
    return kind, json.dumps({"event": kind, "data": {**data, "timestamp": now()}}, separators=(",", ":"))
