"""Restores a copy of an SQLite registry under a new epoch: all of it or nothing, killed at any moment."""

import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from hermesops.base.files.disk import sync_folder
from hermesops.errors import BrokenInvariantError, Hint, Parameter, RefusedError
from hermesops.model.access.audit import ChainReport
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.database import Database
from hermesops.store.registry.maintenance.backup import (
    Copies,
    check_database,
    copy_database,
    overwrite_database,
    settle,
)
from hermesops.store.registry.open import Registry
from hermesops.store.registry.schema import schema_version

_DRAFT = ".restoring.db"
_JOURNALS = ("-wal", "-shm", "-journal")


@dataclass(frozen=True)
class Restored:
    """Result of a restore.

    Attributes:
        epoch: The new epoch; every lease of older epochs has ended.
        set_aside: New path of the damaged file; ``None`` if there was none.
        audit: The copy's entries, verified against the heads that this environment stored outside the database.
    """

    copy: Path
    epoch: int
    set_aside: Path | None
    audit: ChainReport


def is_healthy(file: Path) -> bool:
    """Return whether the file is an intact registry.

    Raises:
        UnavailableError: Another process locks the file.
    """
    if not file.exists() or not file.stat().st_size:
        return False
    try:
        check_database(file)
        return _revision(file) is not None
    except BrokenInvariantError:
        return False


def restore(
    copies: Copies,
    copy: Path,
    *,
    open_at: Callable[[str], Registry],
    anchor: Anchor | None,
    over_healthy: bool,
    why: str,
) -> Restored:
    """Replace the registry by ``copy``, migrated to this code's revision, under an epoch above all before.

    A damaged registry is set aside; a healthy one is copied first, and overwritten in one transaction, so that
    processes that have it open continue with the new content.

    ``copy`` is any file that is a registry; ``open_at`` opens one at a URL, without anchor and copies. ``anchor`` has
    the epochs before, and gets the new head. ``over_healthy`` allows an intact registry to be overwritten.

    Raises:
        RefusedError: The copy is damaged, newer than this code or sealed with another key, or the registry is healthy.
        UnavailableError: The registry is locked, or there is no room.
    """
    _refuse_bad(copy)
    healthy = is_healthy(copies.file)
    if healthy and not over_healthy:
        raise RefusedError(
            f"the registry {copies.file} is intact; restoring {copy.name} would lose all later changes",
            hint=Hint("to restore it anyway, name the environment:", Parameter("over", "NAME")),
        )
    draft = copies.file.with_name(_DRAFT)
    _discard(draft)
    try:
        copy_database(copy, draft)
        epoch, audit = _begin(open_at(f"sqlite:///{draft}"), copy, _epoch(copies.file), anchor, why)
        settle(draft)
        if healthy:
            copies.take("before-restore")
            overwrite_database(copies.file, draft)
        moved_to = None
        if not healthy:
            moved_to = set_aside(copies.file)
            draft.rename(copies.file)
            sync_folder(copies.file.parent)
    finally:
        _discard(draft)
    if anchor and audit.head:
        anchor.append(audit.head)
    return Restored(copy, epoch, moved_to, audit)


def _begin(registry: Registry, copy: Path, epoch: int, anchor: Anchor | None, why: str) -> tuple[int, ChainReport]:
    """Open the new epoch in the draft, and verify its audit; a broken one stays so, and its anchor contradicts it."""
    last = anchor.last() if anchor else None
    known = max(anchor.highest_epoch() if anchor else 0, epoch)
    before: dict[str, object] = {"entry": last.id, "epoch": last.epoch} if last else {}
    try:
        # The epoch first: an audit entry of the old epoch would have the number of a lost one.
        opened = registry.epochs.open(why, above=known)
        registry.audit.append("registry_restored", "registry", why=why, before=before, after={"copy": copy.name})
        return opened, registry.audit.check(anchor)
    finally:
        registry.close()


def _discard(draft: Path) -> None:
    for suffix in ("", *_JOURNALS):
        draft.with_name(draft.name + suffix).unlink(missing_ok=True)


def set_aside(file: Path) -> Path | None:
    """Rename a damaged registry and its journals; returns where it is now, ``None`` when there was no file."""
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    aside = file.with_name(f"{file.name}.damaged-{stamp}")
    was_there = file.exists()
    # Its journals too: SQLite would apply them to the new file.
    for suffix in ("", *_JOURNALS):
        with suppress(FileNotFoundError):
            file.with_name(file.name + suffix).rename(aside.with_name(aside.name + suffix))
    sync_folder(file.parent)
    return aside if was_there else None


def _refuse_bad(copy: Path) -> None:
    if not copy.is_file():
        raise RefusedError(f"there is no copy {copy}", hint=Hint(("registry", "copies")))
    try:
        check_database(copy)
        revision = _revision(copy)
    except BrokenInvariantError as error:
        raise RefusedError(f"the copy {copy} is damaged itself", hint=Hint(("registry", "copies"))) from error
    if revision is None:
        raise RefusedError(f"{copy} is no copy of a registry", hint=Hint(("registry", "copies")))


def _revision(file: Path) -> str | None:
    database = Database(f"sqlite:///{file}")
    try:
        schema_version.refuse_newer(database)
        return schema_version.current(database)
    finally:
        database.close()


def _epoch(file: Path) -> int:
    """The present registry's epoch; 0 when it cannot be read."""
    if not file.exists():
        return 0
    with suppress(sqlite3.Error, ValueError, TypeError), closing(sqlite3.connect(file)) as connection:
        return int(connection.execute("SELECT value FROM meta WHERE name = 'epoch'").fetchone()[0])
    return 0
