"""The ways to an agent's state on a real machine: errands as the agent's user, and restic as its own.

This module is the ``State`` of ``node.ports``; it must not decide whether something may be done.
"""

import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any, TextIO

from hermesops.node.errors import NotReadyError
from hermesops.node.state.repository import Repository
from hermesops.node.state.snapshots import RestoreResult
from hermesops.node.system import as_user
from hermesops.node.system.as_user import AgentHome, UserProcess
from hermesops.node.system.files import Access
from hermesops.node.system.restic import Restic, pump

_LOOK_S = 600.0
_MOVE_S = 3600.0


@dataclass(frozen=True)
class Copied:
    """A copy that was made, or put in place.

    Attributes:
        snapshot: Its id in the repository, in full.
        bytes: Of the files' content.
        added: That the repository grew by.
        left_out: Files that could not be copied.
        state: What was copied.
    """

    snapshot: str
    bytes: int
    added: int
    left_out: int
    state: dict[str, Any]


def look(home: AgentHome, /) -> tuple[dict[str, Any], int]:
    """The digest of the agent's state, and the bytes that its home takes."""
    told = as_user.run(home, "look", timeout_s=_LOOK_S)
    with _understood("look"):
        return dict(told["state"]), int(told["bytes"])


def save(home: AgentHome, repository: Repository, access: Access, /) -> Copied:
    """Copy the state into a repository, which is made where there is none. Killed anywhere, it makes no snapshot.

    Raises:
        NotReadyError: A database stayed locked, there is no room, or the object store does not answer.
        RefusedError: The repository has another password.
    """
    restic = Restic(repository, access)
    restic.ensure()
    with restic.saving() as saving, ExitStack() as ending:
        packing = UserProcess(home, "pack", stdout=subprocess.PIPE)
        ending.callback(packing.stop)
        source = packing.process.stdout
        if source is None:
            raise NotReadyError("pack: gives nothing")
        ending.enter_context(source)
        saving.take(source, packing)
        packed = packing.end()
        saved = saving.end()
    with _understood("pack"):
        return Copied(saved.snapshot, int(packed["bytes"]), saved.added, int(packed["left_out"]), dict(packed["state"]))


def fetch(home: AgentHome, repository: Repository, access: Access, /) -> Copied:
    """Bring a copy beside the state that is there, and prove that it is whole; ``switch`` puts it in place.

    Raises:
        RefusedError: There is no such snapshot, it is not whole, or the password is another.
        NotReadyError: There is no room, or the object store does not answer.
    """
    restic = Restic(repository, access)
    snapshot = restic.full_id(repository.snapshot or "latest")
    with restic.fetching() as (process, said), ExitStack() as ending:
        unpacking = UserProcess(home, "unpack", stdin=subprocess.PIPE)
        ending.callback(unpacking.stop)
        target, source = unpacking.process.stdin, process.stdout
        if source is None or target is None:
            raise NotReadyError("unpack: takes nothing")
        ending.enter_context(target)
        try:
            pump(source, target, taker=unpacking)
        except BrokenPipeError:
            unpacking.end()  # says why
            raise
        if process.wait(_LOOK_S):
            raise restic.failure(said)
        target.close()
        unpacked = unpacking.end(timeout_s=_LOOK_S)
    with _understood("unpack"):
        return Copied(snapshot, int(unpacked["bytes"]), 0, 0, dict(unpacked["state"]))


def switch(home: AgentHome, /) -> None:
    """Put what was fetched in the place of what is there, which is kept beside it; no gateway runs."""
    as_user.run(home, "switch", timeout_s=_MOVE_S)


def settle(home: AgentHome, /) -> None:
    """Bring a switch to its end that was cut short."""
    as_user.run(home, "settle", timeout_s=_MOVE_S)


def forget(home: AgentHome, /) -> None:
    """Remove what the last switch kept."""
    as_user.run(home, "forget", timeout_s=_MOVE_S)


def keep(home: AgentHome, name: str, /) -> None:
    """Keep a copy of the databases and the configuration under a name, while no gateway runs.

    Raises:
        NotReadyError: There is no room, or a database is locked.
    """
    as_user.run(home, "keep", name, timeout_s=_MOVE_S)


def weigh(home: AgentHome, name: str, /) -> RestoreResult:
    """What ``restore`` would come to by now.

    Raises:
        NotReadyError: Nothing of that name is kept.
    """
    told = as_user.run(home, "weigh", name, timeout_s=_LOOK_S)
    with _understood("weigh"):
        return RestoreResult(**told)


def restore(home: AgentHome, name: str, /) -> RestoreResult:
    """Put a kept copy in the place of what is there, which is kept in turn; carry over what was written since."""
    told = as_user.run(home, "restore", name, timeout_s=_MOVE_S)
    with _understood("restore"):
        return RestoreResult(**told)


def outdated(home: AgentHome, /, *, older_than_s: float) -> int:
    """Remove what was kept for longer than that; how many there were."""
    told = as_user.run(home, "outdated", str(older_than_s), timeout_s=_MOVE_S)
    with _understood("outdated"):
        return int(told["removed"])


@contextmanager
def _understood(verb: str) -> Iterator[None]:
    """What an errand says is the agent's user's word: it may have another shape than ours.

    Raises:
        NotReadyError: It has.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise NotReadyError(f"{verb}: the errand said nothing that is understood") from error


def export(home: AgentHome, out: TextIO, /) -> None:
    """Write everything as lines of JSON.

    Args:
        home: Whose.
        out: Something with a descriptor of its own, as stdout.

    Raises:
        NotReadyError: It could not all be read; the last line, which counts the others, is missing.
    """
    out.flush()
    UserProcess(home, "export", stdout=out).end(timeout_s=_MOVE_S)
