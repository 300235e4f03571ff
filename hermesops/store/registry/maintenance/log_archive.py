"""Whether PostgreSQL archives its log, by which alone it is backed up; see decision 0076.

Source: PostgreSQL's manual, "Continuous Archiving" and the view ``pg_stat_archiver``, which every role may read.
"""

from datetime import datetime

import sqlalchemy as sa

from hermesops.errors import HermesError
from hermesops.store.registry.database import Database

_QUERY = sa.text(
    "SELECT current_setting('archive_mode') AS mode, last_archived_time, last_failed_time FROM pg_stat_archiver"
)


def archive_words(database: Database) -> str:
    """Describe the state of PostgreSQL's log archive as a clause; empty for SQLite."""
    if database.is_sqlite:
        return ""
    try:
        with database.reading() as connection:
            row = connection.execute(_QUERY).one()
    except HermesError as error:
        return f"whether its log is archived is unknown: {error.message}"
    return words_of(row.mode, row.last_archived_time, row.last_failed_time)


def words_of(mode: str, archived_at: datetime | None, failed_at: datetime | None) -> str:
    """Describe a log archive by the setting ``archive_mode`` and its newest success and failure. Pure."""
    if mode == "off":
        return "its server archives no log (archive_mode is off), so its only copies are those that you make"
    if failed_at and (archived_at is None or failed_at > archived_at):
        return f"archiving its log has failed since {failed_at:%Y-%m-%d %H:%M} UTC"
    if archived_at is None:
        return "its log is archived; nothing has been archived yet"
    return f"its log is archived, last at {archived_at:%Y-%m-%d %H:%M} UTC"
