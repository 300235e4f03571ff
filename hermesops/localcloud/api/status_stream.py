"""The event stream that tells how a machine comes up."""

import json
import time
from collections.abc import AsyncIterator, Callable

from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.store.rows import MachineRow, MachineStatus
from hermesops.waiting import pause

_LOOK_EVERY_S = 0.05
_PING_EVERY_S = 15.0
_LONGEST_S = 600.0
_FINAL = {MachineStatus.READY, MachineStatus.ERROR, MachineStatus.STOPPED}


async def tell(look: Callable[[], MachineRow | None]) -> AsyncIterator[str]:
    """Events ``status``, ``stage``, ``ping``, at last ``done`` or ``error``; ends by itself after ten minutes.

    Args:
        look: Reads the machine's row; ``None`` once it is gone.

    Source:
        Event names and the limit: published SDK 2026.3.6. It does not say what the data hold.
    """
    started = pinged = time.monotonic()
    said = ("", "")
    while (moment := time.monotonic()) - started < _LONGEST_S:
        row = look()
        if row is None:
            yield _event("error", {"status": MachineStatus.DELETED, "message": "the machine was deleted"})
            return
        status = shown_status(row)
        if row.stage != said[1]:
            yield _event("stage", {"stage": row.stage, "timestamp": row.stage_at or row.created_at})
        if status != said[0]:
            yield _event("status", {"status": status})
        said = (status, row.stage)
        if status in _FINAL:
            yield _event("done", {"status": status})
            return
        if moment - pinged >= _PING_EVERY_S:
            pinged = moment
            yield _event("ping", {})
        await pause(_LOOK_EVERY_S)


def _event(name: str, data: dict[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"
