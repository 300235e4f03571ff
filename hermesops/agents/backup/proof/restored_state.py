"""The confined program that unpacks a backup and counts its contents; it trusts nothing that it reads.

It reads the archive from standard input and writes the result to standard output, as one JSON object.
It imports only ``node`` and the standard library, all of it before it is confined.
"""

import errno
import json
import os
import sys
from pathlib import Path
from typing import Any

from hermesops.agents.backup.proof.confinement import Limits, UnconfinedError, confine
from hermesops.wire.errors import NodeError, NotReadyError
from hermesops.wire.state import unpack
from hermesops.wire.state.digest import unreadable

UNCONFINED, NOT_HERE = "unconfined", "not here"
"""Kinds of errors that say nothing against the backup: the reader cannot be confined here, or disk is lacking."""

_STATE = Path("/state")
"""In the reader's own file system."""


def command(root: Path, folder: Path, bounds: unpack.Bounds, limits: Limits) -> list[str]:
    """The command line that starts it.

    ``root`` is where the package ``hermesops`` is; ``folder`` is empty, and becomes all that it sees.
    """
    imported = "from hermesops.agents.backup.proof.restored_state import main"
    start = f"import sys; sys.path.insert(0, sys.argv[1]); {imported}; main()"
    arguments = {"folder": str(folder), "bounds": vars(bounds), "limits": vars(limits)}
    return [sys.executable, "-I", "-c", start, str(root), json.dumps(arguments)]


def main() -> None:
    """Confine this process, read the backup, write the result, and exit."""
    arguments = json.loads(sys.argv[2])
    limits, bounds = Limits(**arguments["limits"]), unpack.Bounds(**arguments["bounds"])
    source = sys.stdin.buffer
    try:
        confined = confine(Path(arguments["folder"]), limits)
    except UnconfinedError as error:
        result: dict[str, Any] = {"error": str(error), "kind": UNCONFINED}
    else:
        result = {"confined": confined, **_read(source, bounds, limits)}
    os.write(1, json.dumps(result).encode())
    os._exit(0)  # skip Python's own shutdown, which would flush and free what an agent has made


def _read(source: Any, bounds: unpack.Bounds, limits: Limits) -> dict[str, Any]:  # noqa: ANN401 - as sys has it
    try:
        _STATE.mkdir(mode=0o700)
        packed = unpack.read(source, _STATE, bounds)
    except NodeError as error:
        return {"error": str(error), "kind": NOT_HERE if isinstance(error, NotReadyError) else ""}
    except OSError as error:
        lacks = error.errno in {errno.ENOSPC, errno.EDQUOT}
        return {"error": f"the backup cannot be unpacked: {error.strerror}", "kind": NOT_HERE if lacks else ""}
    except MemoryError:
        return {"error": f"reading the backup takes more than {limits.memory_bytes >> 20} MiB of memory"}
    except Exception as error:  # noqa: BLE001 - whatever error an archive provokes counts against it
        return {"error": f"the backup cannot be read: {type(error).__name__}"}
    is_whole = all(part["count"] >= 0 for part in packed.state.values())
    return {"state": packed.state, "why": "" if is_whole else unreadable(_STATE)}
