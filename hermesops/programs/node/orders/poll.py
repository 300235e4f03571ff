"""``orders``: fetches the platform's orders for this machine and carries them out; a timer runs it twice a minute.

If the platform does not answer, the last orders stay in force: metrics go on, and an open access closes by itself.
"""

import json
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import urlsplit

from hermesops.programs.node.instance.certificate import installed
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.orders import break_glass
from hermesops.programs.node.system.files import PRIVATE, Access
from hermesops.wire.documents.orders import PATH, Orders, Report
from hermesops.wire.protocol import Credential

_LOCK_S = 10.0
_READABLE = Access(0o644)

MAX_OFFSET_S = 10 * 365 * 86400.0
"""The largest difference of clocks that is recorded."""

TARGET = "hermes-monitoring.target"
"""All collectors of metrics and logs; role ``hermes_monitoring`` brings it."""

INGEST_VARIABLE = "HERMES_INGEST_URL"
"""The variable of ``layout.ingest`` that says where they send."""


def ask(machine: Machine) -> dict[str, Any]:
    """Fetch orders and carry them out; return the orders and the changes.

    Raises:
        NotReadyError: The platform does not answer; the timer tries again.
        RefusedError: The platform refuses this machine.
        BadRequestError: Its answer is malformed, and nothing was changed.
    """
    if machine.files.read(machine.layout.machine_certificate) is None:
        return {"asked": False, "why": "this machine has no certificate yet"}
    with machine.files.locked(machine.layout.orders_lock, limit_s=_LOCK_S):
        break_glass.close_expired(machine)
        credential, key = installed(machine)
        report = Report(
            break_glass.ssh_host(machine, urlsplit(credential.url).hostname or ""), break_glass.report(machine)
        )
        orders = _answer(machine, credential, key, report)
        changed = _send_to(machine, orders.ingest)
        became = break_glass.carry_out(machine, credential.names, orders.break_glass)
        if became != report.break_glass:  # an operator waits for it
            _answer(machine, credential, key, replace(report, break_glass=became))
        return {
            "asked": True,
            "ingest": orders.ingest,
            "ingest_changed": changed,
            "break_glass": asdict(became) if became else None,
        }


def _answer(machine: Machine, credential: Credential, key: bytes, report: Report) -> Orders:
    answer = machine.ask_orders(credential, key, "POST", PATH, report.to_json())
    ended = machine.system.now()
    offset = clock_offset(answer.date, ended)
    if offset is not None:
        note = {"offset_s": round(offset, 3), "at": ended}
        machine.files.write_if_changed(machine.layout.clock, json.dumps(note, sort_keys=True).encode(), PRIVATE)
    return Orders.from_json(answer.body)


def _send_to(machine: Machine, url: str) -> bool:
    """Let the collectors send to a URL, or stop them if it is empty; return whether that changed anything."""
    layout = machine.layout
    if not url:
        if machine.files.read(layout.ingest) is None:
            return False
        machine.remove(layout.ingest)
        machine.system.systemctl("--no-block", "stop", TARGET, check=False)
        return True
    if not machine.files.write_if_changed(layout.ingest, f"{INGEST_VARIABLE}={url}\n".encode(), _READABLE):
        return False
    # Not checked: an image of before monitoring has no such target.
    machine.system.systemctl("--no-block", "restart", TARGET, check=False)
    return True


def clock_offset(date: str, ended: float) -> float | None:
    """Seconds by which the platform's clock is ahead of this machine's; ``None`` where the header says no time.

    Args:
        date: The header ``Date``, which counts whole seconds; an answer gets it right before it is sent.
        ended: Own time after the answer, in seconds since 1970.

    Source: RFC 9110, section 5.6.7.
    """
    from email.utils import parsedate_to_datetime  # noqa: PLC0415 - resident processes do not hold it, see node.system.resident

    try:
        platform_s = parsedate_to_datetime(date[:64]).timestamp() + 0.5
    except (ValueError, TypeError, OverflowError, IndexError):
        return None
    return max(-MAX_OFFSET_S, min(MAX_OFFSET_S, platform_s - ended))
