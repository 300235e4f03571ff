"""Runs before each write: refuses an outdated registry, and takes the hourly copy."""

import threading
from collections.abc import Callable
from datetime import UTC, datetime

import sqlalchemy as sa

from hermesops.errors import BrokenInvariantError, Hint, RefusedError, UnavailableError
from hermesops.model.access.audit import AuditHead
from hermesops.store.registry.audit.anchor import Anchor
from hermesops.store.registry.audit.log import Warn
from hermesops.store.registry.database import RESTORE, Database
from hermesops.store.registry.maintenance.backup import Copies, hour_of
from hermesops.store.registry.meta import read_meta
from hermesops.store.registry.schema.tables import audit

_NEVER = datetime.min.replace(tzinfo=UTC)

MOVED_TO = "moved_to"
"""Name of the row of ``meta`` that says where an SQLite registry was moved to; it takes no writes any more."""


def refuse_moved(connection: sa.Connection) -> None:
    """Refuse to write a registry that was moved elsewhere.

    Raises:
        RefusedError: It was.
    """
    if to := read_meta(connection, MOVED_TO):
        raise RefusedError(
            f"this registry was moved to {to}; its file refuses writes now",
            hint=Hint(
                "run the same command again, which then uses the other one; or", ("platform", "connect", "--undo")
            ),
        )


class WriteGuard:
    """Check before each write; after the first write of an hour it costs nothing.

    Args:
        anchor: Contains the newest entry of the audit.
        copies: ``None`` for PostgreSQL.
        actor: Returns the name of the writer; may refuse.
    """

    def __init__(
        self,
        database: Database,
        anchor: Anchor | None,
        copies: Copies | None,
        warn: Warn,
        actor: Callable[[], str],
    ) -> None:
        self._database = database
        self._anchor = anchor
        self._copies = copies
        self._warn = warn
        self._actor = actor
        self._lock = threading.Lock()
        self._is_current = False
        self._copied_in = _NEVER

    def __call__(self) -> None:
        """Allow the write, or refuse it.

        Raises:
            BrokenInvariantError: The registry is damaged, or older than its last known write.
        """
        with self._lock:
            self._actor()
            if not self._is_current:
                refuse_older(self._database, self._anchor)
                self._is_current = True
            hour = hour_of()
            if self._copies and self._copied_in != hour:
                try:
                    self._copies.take_hourly()
                except (OSError, UnavailableError) as error:
                    self._warn("registry_not_copied", registry=str(self._copies.file), error=str(error))
                self._copied_in = hour


def refuse_older(database: Database, anchor: Anchor | None) -> None:
    """Check that the registry has the newest anchored audit entry; one restored by hand lacks it.

    Leases written since would be lost, and their fencing tokens given out twice.

    Raises:
        BrokenInvariantError: It is not there.
    """
    head = anchor.last() if anchor else None
    if head is None:
        return
    with database.reading() as connection:
        if _has(connection, head):
            return
    raise BrokenInvariantError(
        f"the registry {database.title} is older than the last write: it lacks audit entry {head.id} "
        f"of epoch {head.epoch}",
        hint=Hint(
            ("audit", "verify"),
            "shows details;",
            ("registry", "restore", "--already-restored", "--reason", "WHY"),
            "accepts it",
        ),
    )


def refuse_loss(database: Database, anchor: Anchor | None, copies: Copies | None) -> None:
    """Check that a missing or empty SQLite registry never existed.

    Raises:
        BrokenInvariantError: There are copies of it or anchored entries.
    """
    if not database.is_empty() or not ((copies and copies.list()) or (anchor and anchor.last())):
        return
    raise BrokenInvariantError(
        f"the registry {database.title} is missing, although there was one",
        hint=Hint(RESTORE, "; or", ("registry", "rebuild")),
    )


def _has(connection: sa.Connection, head: AuditHead) -> bool:
    entry = connection.execute(sa.select(audit.c.epoch, audit.c.hash).where(audit.c.id == head.id)).one_or_none()
    if entry and (entry.epoch, entry.hash) == (head.epoch, head.hash):
        return True
    # Known to be lost: a later epoch began from a copy that was taken before this entry.
    later = sa.select(sa.func.min(audit.c.id)).where(audit.c.epoch > head.epoch)
    first = connection.execute(later).scalar()
    return first is not None and first <= head.id
