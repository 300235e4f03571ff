"""The agent's state on a real machine: commands run as the agent's user, and restic as a user of its own.

The upper half runs as root and is the ``State`` of ``node.ports``; it must not make decisions. The lower half is run by
``node.system.as_user`` as the agent's user.
"""

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

from hermesops.programs.node.state import export as rows
from hermesops.programs.node.state import snapshots, swap, user_config
from hermesops.programs.node.state.config_changes import NAMED, SETTING, SettingsResult
from hermesops.programs.node.state.snapshots import RestoreResult
from hermesops.programs.node.system import as_user
from hermesops.programs.node.system.as_user import MEMORY_BYTES, AgentHome, UserProcess, pump
from hermesops.programs.node.system.files import Access
from hermesops.programs.node.system.restic import Repository, Restic
from hermesops.wire.errors import NodeError, NotReadyError, RefusedError
from hermesops.wire.foreign_text import one_line
from hermesops.wire.state import databases, digest, tar_stream
from hermesops.wire.state.contents import AGENTS_OWN
from hermesops.wire.state.unpack import unpack

_READ_S = 600.0
_MOVE_S = 3600.0
_LONGEST_VERSION = 20


@dataclass(frozen=True)
class Copied:
    """A copy that was made or restored.

    Attributes:
        snapshot: Its id in the repository, in full.
        bytes: Of the files' content.
        added: Bytes that the repository grew by.
        left_out: Files that could not be copied.
    """

    snapshot: str
    bytes: int
    added: int
    left_out: int
    state: dict[str, Any]


def observe(home: AgentHome, /) -> tuple[dict[str, Any], int]:
    """The digest of the agent's state, and the bytes that its home takes."""
    report = as_user.run(home, "observe", timeout_s=_READ_S)
    with _understood("observe"):
        return dict(report["state"]), int(report["bytes"])


def check_databases(home: AgentHome, /) -> dict[str, bool]:
    """Whether each of the agent's own databases is undamaged, by name; databases of unknown state are left out."""
    report = as_user.run(home, "check", timeout_s=_READ_S)
    with _understood("check"):
        intact = report["intact"]
        names = sorted(name.decode() for name in AGENTS_OWN)
        return {name: intact[name] for name in names if isinstance(intact.get(name), bool)}


def sqlite_version(home: AgentHome, /) -> str:
    """The version of SQLite that the agent's databases are opened with here."""
    report = as_user.run(home, "sqlite", timeout_s=_READ_S)
    with _understood("sqlite"):
        return str(report["version"])[:_LONGEST_VERSION]


def save(home: AgentHome, repository: Repository, access: Access, /) -> Copied:
    """Copy the state into a repository, which is created if missing. A killed copy makes no snapshot.

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
    """Fetch a copy beside the present state, and check that it is complete; ``switch`` installs it.

    Raises:
        RefusedError: There is no such snapshot, it is not complete, or the password is another.
        NotReadyError: There is no room, or the object store does not answer.
    """
    restic = Restic(repository, access)
    snapshot = restic.full_id(repository.snapshot or "latest")
    with restic.fetching() as (process, errors), ExitStack() as ending:
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
        if process.wait(_READ_S):
            raise restic.failure(errors)
        target.close()
        unpacked = unpacking.end(timeout_s=_READ_S)
    with _understood("unpack"):
        return Copied(snapshot, int(unpacked["bytes"]), 0, 0, dict(unpacked["state"]))


def switch(home: AgentHome, /) -> None:
    """Replace the present state by the fetched one, and keep the old one beside it; no gateway runs."""
    as_user.run(home, "switch", timeout_s=_MOVE_S)


def settle(home: AgentHome, /) -> None:
    """Finish an interrupted switch of the state."""
    as_user.run(home, "settle", timeout_s=_MOVE_S)


def forget(home: AgentHome, /) -> None:
    """Remove the state that the last switch kept."""
    as_user.run(home, "forget", timeout_s=_MOVE_S)


def keep(home: AgentHome, name: str, /) -> None:
    """Keep a copy of the databases and the configuration under a name, while no gateway runs.

    Raises:
        NotReadyError: There is no room, or a database is locked.
    """
    as_user.run(home, "keep", name, timeout_s=_MOVE_S)


def preview(home: AgentHome, name: str, /) -> RestoreResult:
    """The rows and settings that ``restore`` would migrate and lose now; empty where nothing of that name is kept."""
    report = as_user.run(home, "preview", name, timeout_s=_READ_S)
    with _understood("preview"):
        return _restored(report)


def preview_config(home: AgentHome, schema: int, /) -> RestoreResult:
    """The settings that ``take_config_back`` would migrate and lose now."""
    report = as_user.run(home, "preview_config", str(schema), timeout_s=_READ_S)
    with _understood("preview_config"):
        return _restored(report)


def restore(home: AgentHome, name: str, /) -> RestoreResult:
    """Replace the present state by a kept copy, keep it in turn, and migrate the rows written since."""
    report = as_user.run(home, "restore", name, timeout_s=_MOVE_S)
    with _understood("restore"):
        return _restored(report)


def keep_config(home: AgentHome, /) -> None:
    """Keep the user's configuration under the number of its schema."""
    as_user.run(home, "keep_config", timeout_s=_READ_S)


def keep_migrated_config(home: AgentHome, /) -> None:
    """Keep the user's configuration as the migration left it."""
    as_user.run(home, "keep_migrated_config", timeout_s=_READ_S)


def take_config_back(home: AgentHome, schema: int, /) -> RestoreResult:
    """Put the newest configuration in place that an agent of a schema reads, with the user's changes since."""
    report = as_user.run(home, "take_config_back", str(schema), timeout_s=_READ_S)
    with _understood("take_config_back"):
        return _restored(report)


def prune(home: AgentHome, /, *, older_than_s: float) -> int:
    """Remove copies that are older than a limit; return their number."""
    report = as_user.run(home, "prune", str(older_than_s), timeout_s=_MOVE_S)
    with _understood("prune"):
        return int(report["removed"])


def export(home: AgentHome, out: TextIO, /) -> None:
    """Export everything as lines of JSON.

    ``out`` has a file descriptor, as stdout does.

    Raises:
        NotReadyError: Not all could be read; the last line, which counts the others, is missing.
    """
    out.flush()
    UserProcess(home, "export", stdout=out).end(timeout_s=_MOVE_S)


def _restored(report: Mapping[str, Any]) -> RestoreResult:
    """A report's counts and names; the names are the user's own text, as the file has them."""
    names = tuple(name for name in map(str, report["settings_lost"][:NAMED]) if SETTING.fullmatch(name))
    counts = (int(report["migrated"]), int(report["listed"]), one_line(str(report["kept"])))
    return RestoreResult(*counts, int(report["settings_migrated"]), names)


@contextmanager
def _understood(verb: str) -> Iterator[None]:
    """Convert errors from a malformed report: it comes from the agent's user, so its shape is not trusted.

    Raises:
        NotReadyError: The report has another shape.
    """
    try:
        yield
    except (KeyError, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise NotReadyError(f"{verb}: its report is not understood") from error


# What follows runs as the agent's user.


def main(arguments: Sequence[str]) -> int:
    """Run one command: ``VERB HOME REPORT [WORD…]``; ``REPORT`` is the descriptor that it reports on."""
    verb, home, descriptor, *words = arguments
    try:
        report: Mapping[str, Any] = _VERBS[verb](Path(home), *words) or {}
        code = 0
    except NodeError as error:
        report, code = {"error": str(error), "kind": type(error).__name__}, error.exit_code
    except MemoryError:
        why = f"{verb}: it takes more than {MEMORY_BYTES >> 20} MiB of memory"
        report, code = {"error": why, "kind": NotReadyError.__name__}, NotReadyError.exit_code
    except OSError as error:
        report, code = {"error": f"{verb}: {error.strerror}", "kind": NotReadyError.__name__}, NotReadyError.exit_code
    with os.fdopen(int(descriptor), "wb") as file:
        file.write(json.dumps(report).encode())
    return code


def _observe(home: Path) -> dict[str, Any]:
    state, used = digest.digest_of(home)
    return {"state": state, "bytes": used}


def _check(home: Path) -> dict[str, Any]:
    checked = {name: databases.is_intact(home, name) for name in sorted(AGENTS_OWN)}
    return {"intact": {name.decode(): intact for name, intact in checked.items() if intact is not None}}


def _take_config_back(home: Path, schema: int) -> RestoreResult:
    settings = user_config.take_back(home, schema) or SettingsResult()
    return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)


def _preview_config(home: Path, schema: int) -> RestoreResult:
    settings = user_config.preview(home, schema)
    return RestoreResult(settings_migrated=settings.migrated, settings_lost=settings.lost)


def _unpack(home: Path) -> dict[str, Any]:
    if swap.is_begun(home):
        raise RefusedError("the state is being replaced")
    return asdict(unpack(sys.stdin.buffer, swap.incoming(home)))


def _switch(home: Path) -> None:
    if swap.incoming(home).exists():
        swap.make_ready(home)
    swap.switch(home)


_VERBS: Mapping[str, Callable[..., Mapping[str, Any] | None]] = {
    "observe": _observe,
    "check": _check,
    "sqlite": lambda _: {"version": sqlite3.sqlite_version},
    "pack": lambda home: asdict(tar_stream.pack(home, sys.stdout.buffer)),
    "unpack": _unpack,
    "switch": _switch,
    "settle": swap.switch,
    "forget": swap.forget,
    "export": lambda home: rows.write(home, sys.stdout),
    "keep": snapshots.keep,
    "preview": lambda home, name: asdict(snapshots.preview(home, name)),
    "restore": lambda home, name: asdict(snapshots.restore(home, name)),
    "prune": lambda home, older_than_s: {"removed": snapshots.prune(home, float(older_than_s))},
    "keep_config": user_config.keep,
    "keep_migrated_config": user_config.keep_migrated,
    "preview_config": lambda home, schema: asdict(_preview_config(home, int(schema))),
    "take_config_back": lambda home, schema: asdict(_take_config_back(home, int(schema))),
    "make_trial_copy": lambda home, schema: snapshots.make_trial_copy(home, int(schema)),
    "trial_schemas": lambda home: {"schemas": snapshots.trial_schemas(home)},
    "remove_trial_copy": snapshots.remove_trial_copy,
}
