"""One writer at a time: the CLI's lock files, with a way out after our own crash.

The CLI's locks have no age and no owner check. Ours add the boot, process namespace and process start of their owner,
so that a lock whose process has provably ended can be removed; the CLI ignores fields that it does not know.
That cannot be checked for a process of another computer, nor for one before this boot, since a machine id does not
tell computers apart. So our locks also have the fencing token of the stack's lease: a holder with a later token knows
that the lock's owner has lost the lease, and an owner whose lock was removed writes nothing more.
Source: recordings, semantics §6.
"""

import contextlib
import json
import os
import pwd
import socket
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

from hermesops.base import processes
from hermesops.base.waiting import Pending, WaitExpiredError, until
from hermesops.errors import UnavailableError
from hermesops.infra.engine.embedded.protocol.values import dumps
from hermesops.infra.engine.embedded.state.deployment import now
from hermesops.infra.engine.embedded.state.storage import Folder, Storage
from hermesops.infra.engine.options import Token

OURS = "hermesops"

GRACE_S = 10.0
"""Seconds in which a living process that lost the lease may still give its lock back; it begins nothing new."""


@dataclass(frozen=True)
class Lock:
    """A lock file of this engine."""

    storage: Storage
    name: str
    stack: str

    def check(self) -> None:
        """Return if it is still there.

        Raises:
            UnavailableError: The next holder of the lease has removed it; the stack is theirs.
        """
        if self.storage.read(self.name) is None:
            raise UnavailableError(
                f"another process took over stack {self.stack}; its state was not changed",
                hint="run the same command again: it continues from the present state",
            )


async def outwait(folder: Folder, token: Token | None, *, report: Callable[[str], None]) -> None:
    """Wait for the locks of former holders of the stack's lease, and remove those that are not given back.

    ``token`` is of our lease; without one no lock is stale. ``report`` gets a line for each lock that was removed.
    """

    async def gone() -> bool | Pending[bool]:
        left = _outranked(folder, token)
        return Pending(", ".join(_describe(folder.storage, file) for file in left)) if left else True

    if token is None or not _outranked(folder, token):
        return
    try:
        await until(gone, what="the lock of a process that has lost its lease", timeout_s=GRACE_S, every_s=0.5)
    except WaitExpiredError:
        for file in _outranked(folder, token):
            described = _describe(folder.storage, file)
            folder.storage.delete(file)
            report(f"removed a lock whose owner has lost the lease of the stack: {described}")


def _outranked(folder: Folder, token: Token | None) -> list[str]:
    """Return locks with an earlier token, of processes that cannot be seen from here."""
    return [file for file in folder.files(".json") if _is_outranked(folder.storage.read(file), token)]


def _is_outranked(content: bytes | None, token: Token | None) -> bool:
    try:
        theirs = json.loads(content or b"")[OURS]
        return token is not None and tuple(theirs["token"]) < token and not processes.is_visible(_fingerprint(theirs))
    except (ValueError, KeyError, TypeError, RecursionError):
        return False


@contextlib.contextmanager
def held(folder: Folder, *, stack: str, report: Callable[[str], None], token: Token | None = None) -> Iterator[Lock]:
    """Hold the stack's lock: list, write, list again, and step back if another lock has appeared.

    Safe if a list shows every earlier write, as folders and S3 do. Of two processes that try at once, both
    may step back.

    ``token`` is of our lease of the stack; without one other computers cannot detect a stale lock. ``report`` gets a
    line for each lock of a dead process that was removed.

    Raises:
        UnavailableError: Somebody else holds it.
    """
    mine = f"{folder.name}/{uuid.uuid4()}.json"
    refuse_others(folder, mine, stack=stack, report=report)
    try:
        folder.storage.write(mine, dumps(_lock_document(token)).encode())
        refuse_others(folder, mine, stack=stack, report=report)  # two may have written at once; then both step back
        yield Lock(folder.storage, mine, stack)
    finally:
        folder.storage.delete(mine)


def mark_child(folder: Folder) -> None:
    """Add to the lock that our child process has just written the fields that later show that it has ended.

    Where that process gives its lock back meanwhile, the lock written here names a process that has ended. It gets no
    token: the CLI does not check its lock before it writes, so no other computer may remove it.
    """
    for file in folder.files(".json"):
        doc = _document(folder.storage.read(file))
        pid = doc.get("pid")
        if OURS not in doc and doc.get("hostname") == socket.gethostname() and isinstance(pid, int) and _is_child(pid):
            folder.storage.write(file, dumps({**doc, OURS: _process(pid)}).encode())


def _is_child(pid: int) -> bool:
    return pid != os.getpid() and processes.descends(pid, os.getpid())


def refuse_others(folder: Folder, mine: str = "", *, stack: str, report: Callable[[str], None]) -> None:
    """Raise if another process holds the stack's lock; removes locks of processes that have provably ended.

    That is no refusal, which would end an operation for good: a worker that hung keeps its lock though others have
    taken its leases, and gives it back when it goes on or is killed.

    ``mine`` is the name of our own lock, if any; ``report`` gets a line for each lock that was removed.

    Raises:
        UnavailableError: Somebody else holds it.
    """
    living = remove_dead(folder, mine, report=report)
    if living:
        described = "; ".join(_describe(folder.storage, file) for file in living)
        raise UnavailableError(
            f"stack {stack} is locked by {len(living)} other(s): {described}",
            hint="wait for it to end; if that process is surely gone, remove the lock file and run the command again",
        )


def remove_dead(folder: Folder, mine: str = "", *, report: Callable[[str], None]) -> list[str]:
    """Remove locks of processes that have provably ended; returns the names of the others' that are left."""
    return [file for file in folder.files(".json") if file != mine and not _removed(folder.storage, file, report)]


def _removed(storage: Storage, file: str, report: Callable[[str], None]) -> bool:
    """Remove a lock if its process provably ended; answer whether there is no lock any more."""
    content = storage.read(file)
    if content is None:
        return True
    doc = _document(content)
    if not _is_dead(doc):
        return False
    storage.delete(file)
    report(f"removed the lock of process {doc.get('pid')}, which has ended without releasing it")
    return True


def _document(content: bytes | None) -> dict[str, Any]:
    try:
        doc = json.loads(content or b"")
    except (ValueError, RecursionError):
        return {}
    return doc if isinstance(doc, dict) else {}


def _is_dead(doc: dict[str, Any]) -> bool:
    match doc.get("pid"), doc.get(OURS):
        case int(pid), {"started": str(start), **where}:
            return processes.has_ended(_fingerprint(where), pid, start)
    return False


def _fingerprint(theirs: Mapping[Any, object]) -> str:
    return processes.Place(*(str(theirs.get(part)) for part in ("host", "boot", "namespace"))).fingerprint


def _describe(storage: Storage, file: str) -> str:
    where = storage.at(file)
    try:
        doc = json.loads(storage.read(file) or b"")
        return f"{where}: created by {doc['username']}@{doc['hostname']} (pid {doc['pid']}) at {doc['timestamp']}"
    except (ValueError, KeyError, TypeError, RecursionError):
        return f"{where}: unreadable"


def _lock_document(token: Token | None) -> dict[str, Any]:
    pid = os.getpid()
    try:
        user = pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        user = str(os.getuid())
    ours = _process(pid) if token is None else {**_process(pid), "token": list(token)}
    return {"pid": pid, "username": user, "hostname": socket.gethostname(), "timestamp": now(), OURS: ours}


def _process(pid: int) -> dict[str, Any]:
    return {**asdict(processes.here()), "started": processes.started(pid)}
