"""Chain the audit's entries, those that are there included."""

from datetime import datetime

import sqlalchemy as sa
from alembic import op

from hermesops.model.audit import AuditEntry
from hermesops.registry.audit.hash_chain import link
from hermesops.registry.schema.columns import UtcTimestamp

revision = "0003"
down_revision = "0002"

_BATCH = 1000
_OLD = sa.table(
    "audit",
    sa.column("id", sa.BigInteger),
    sa.column("at", UtcTimestamp),
    sa.column("who", sa.String),
    sa.column("action", sa.String),
    sa.column("subject", sa.String),
    sa.column("why", sa.Text),
    sa.column("before", sa.JSON),
    sa.column("after", sa.JSON),
    sa.column("epoch", sa.Integer),
    sa.column("previous", sa.String),
    sa.column("hash", sa.String),
)


def upgrade() -> None:
    """Add the columns and fill them; the triggers that refuse changes are away only for that."""
    op.add_column("audit", sa.Column("epoch", sa.Integer(), nullable=False, server_default="1"))
    op.add_column("audit", sa.Column("previous", sa.String(length=64), nullable=False, server_default=""))
    op.add_column("audit", sa.Column("hash", sa.String(length=64), nullable=False, server_default=""))
    if op.get_bind().dialect.name == "sqlite":
        op.execute("DROP TRIGGER audit_refuses_update")
        _chain()
        op.execute(
            "CREATE TRIGGER audit_refuses_update BEFORE UPDATE ON audit "
            "BEGIN SELECT RAISE(ABORT, 'audit is only ever appended to'); END"
        )
    else:
        op.execute("ALTER TABLE audit DISABLE TRIGGER audit_refuses_changes")
        _chain()
        op.execute("ALTER TABLE audit ENABLE TRIGGER audit_refuses_changes")


def _chain() -> None:
    connection = op.get_bind()
    last, epoch, done = "", 1, 0
    while True:
        query = sa.select(_OLD).where(_OLD.c.id > done).order_by(_OLD.c.id).limit(_BATCH)
        rows = connection.execute(query).all()
        if not rows:
            return
        for row in rows:
            epoch = _epoch_after(row.action, row.after, epoch)
            entry = link(_entry(row, row.at, epoch), last)
            connection.execute(
                _OLD.update().where(_OLD.c.id == entry.id).values(epoch=epoch, previous=entry.previous, hash=entry.hash)
            )
            last, done = entry.hash, entry.id


def _epoch_after(action: str, after: object, epoch: int) -> int:
    is_opening = action == "epoch_opened" and isinstance(after, dict)
    return int(after["epoch"]) if is_opening and isinstance(after, dict) else epoch


def _entry(row: sa.Row[tuple[object, ...]], at: datetime, epoch: int) -> AuditEntry:
    return AuditEntry(row.id, at, row.who, row.action, row.subject, row.why, row.before, row.after, epoch)
