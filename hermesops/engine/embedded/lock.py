"""One writer at a time: the CLI's lock files, with a way out after our own crash.

The CLI's locks have no age and no owner check. Ours add which boot, process namespace and process start they
belong to, so that a lock whose process is provably gone can be removed; the CLI ignores what it does not know.
Source: recordings, semantics §6.
"""

import contextlib
import json
import os
import pwd
import socket
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hermesops.engine.embedded.clock import now
from hermesops.engine.embedded.place import Folder, Place
from hermesops.engine.embedded.values import dumps
from hermesops.errors import RefusedError

OURS = "hermesops"


@contextlib.contextmanager
def held(folder: Folder, *, stack: str, tell: Callable[[str], None]) -> Iterator[None]:
    """Hold the stack's lock: list, write, list again, and step back when another has come.

    Safe where a list shows what was written before it, as folders and S3 do; of two who come at once both may step
    back.

    Args:
        folder: Where the stack's locks lie.
        stack: How the stack is called, for the error.
        tell: Called with a line when a lock of a dead process was removed.

    Raises:
        RefusedError: Somebody else holds it.
    """
    mine = f"{folder.name}/{uuid.uuid4()}.json"
    _refuse_others(folder, mine, stack, tell)
    try:
        folder.place.write(mine, dumps(_who()).encode())
        _refuse_others(folder, mine, stack, tell)  # two may have written at once; then both step back
        yield
    finally:
        folder.place.delete(mine)


def _refuse_others(folder: Folder, mine: str, stack: str, tell: Callable[[str], None]) -> None:
    others = [file for file in folder.files(".json") if file != mine]
    living = [file for file in others if not _removed(folder.place, file, tell)]
    if living:
        described = "; ".join(_describe(folder.place, file) for file in living)
        raise RefusedError(
            f"stack {stack} is locked by {len(living)} other(s): {described}",
            hint="wait for it to end; if that process is surely gone, remove the lock file and run the command again",
        )


def _removed(place: Place, file: str, tell: Callable[[str], None]) -> bool:
    """Remove a lock if its process provably ended; answer whether there is no lock any more."""
    content = place.read(file)
    if content is None:
        return True
    try:
        doc = json.loads(content)
    except ValueError:
        return False
    if not isinstance(doc, dict) or not _is_dead(doc):
        return False
    place.delete(file)
    tell(f"removed the lock of process {doc.get('pid')}, which has ended without giving it back")
    return True


def _is_dead(doc: dict[str, Any]) -> bool:
    theirs, ours = doc.get(OURS), _place(os.getpid())
    if not isinstance(theirs, dict) or theirs.get("host") != ours["host"]:
        return False
    if theirs.get("boot") != ours["boot"]:
        return True
    if theirs.get("namespace") != ours["namespace"]:
        return False
    return _started(int(doc.get("pid", 0))) != theirs.get("started")


def _describe(place: Place, file: str) -> str:
    where = place.at(file)
    try:
        doc = json.loads(place.read(file) or b"")
        return f"{where}: created by {doc['username']}@{doc['hostname']} (pid {doc['pid']}) at {doc['timestamp']}"
    except (ValueError, KeyError, TypeError):
        return f"{where}: unreadable"


def _who() -> dict[str, Any]:
    pid = os.getpid()
    return {
        "pid": pid,
        "username": _user(),
        "hostname": socket.gethostname(),
        "timestamp": now(),
        OURS: _place(pid),
    }


def _user() -> str:
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def _place(pid: int) -> dict[str, Any]:
    return {
        "host": _read(Path("/etc/machine-id")),
        "boot": _read(Path("/proc/sys/kernel/random/boot_id")),
        "namespace": _link(Path("/proc/self/ns/pid")),
        "started": _started(pid),
    }


def _started(pid: int) -> str:
    """When a process started, in the kernel's ticks; empty when there is no such process."""
    # The name in the second field may hold spaces and brackets; after the last bracket the fields are plain.
    fields = _read(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    started_at = 19
    return fields[started_at] if len(fields) > started_at and fields[0] != "Z" else ""


def _read(file: Path) -> str:
    try:
        return file.read_text().strip()
    except OSError:
        return ""


def _link(file: Path) -> str:
    try:
        return str(file.readlink())
    except OSError:
        return ""
