from datetime import UTC, datetime

import pytest
from sqlalchemy.dialects import sqlite

from hermesops.store.registry.schema.columns import UtcTimestamp


def test_a_moment_without_a_zone_is_refused() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - the mistake under test
    with pytest.raises(ValueError, match="time zone"):
        UtcTimestamp().process_bind_param(naive, sqlite.dialect())


def test_a_moment_read_from_sqlite_gets_its_zone_back() -> None:
    naive = datetime(2026, 1, 1)  # noqa: DTZ001 - as SQLite hands it out
    assert UtcTimestamp().process_result_value(naive, sqlite.dialect()) == datetime(2026, 1, 1, tzinfo=UTC)
