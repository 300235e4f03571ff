"""The fault that the platform tells machines a wrong time: a file that its service reads for each answer.

The service is a process of its own, of which the world knows a command and a socket, so the fault cannot strike here.
"""

import json
import time
from collections.abc import Iterable
from datetime import datetime
from pathlib import Path

from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.store.rows import FaultRow
from hermesops.localcloud.world.files import write_object


def write(file: Path, rows: Iterable[FaultRow]) -> None:
    """Shift the service's dates by the newest of the waiting faults."""
    shifts = [row for row in rows if row.kind == FaultKind.DATE_SHIFTED]
    if not shifts:
        file.unlink(missing_ok=True)
        return
    until = shifts[-1].until
    ends_s = datetime.fromisoformat(until).timestamp() if until else None
    write_object(file, {"seconds": shifts[-1].seconds, "until": ends_s})


def shifted_time(file: Path) -> float:
    """The shifted time in seconds since 1970."""
    now_s = time.time()
    try:
        shift = json.loads(file.read_bytes())
        is_over = shift["until"] is not None and now_s >= float(shift["until"])
        return now_s if is_over else now_s + float(shift["seconds"])
    except (OSError, ValueError, KeyError, TypeError):
        return now_s
