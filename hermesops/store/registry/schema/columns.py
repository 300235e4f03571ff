"""Column types that mean the same on SQLite and PostgreSQL."""

from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

import sqlalchemy as sa


class UtcTimestamp(sa.TypeDecorator[datetime]):
    """TIMESTAMPTZ; values are aware and in UTC, on SQLite too, which stores no zones."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn an aware moment into UTC; a naive one is a bug of the caller."""
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError(f"a time without a time zone: {value}")
        return value.astimezone(UTC)

    def process_result_value(self, value: datetime | None, dialect: sa.Dialect) -> datetime | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Give SQLite's naive values the zone they were stored in."""
        if value is None:
            return None
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


class IpAddress(sa.TypeDecorator[str]):
    """INET on PostgreSQL, text elsewhere; always text to us (psycopg hands out address objects)."""

    impl = sa.String(45)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        """Choose the database's own type where it has one."""
        if dialect.name != "postgresql":
            return dialect.type_descriptor(sa.String(45))
        # It costs some hundredths of a second to import, and SQLite has no use for it.
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415 - as above

        return dialect.type_descriptor(postgresql.INET())

    def process_result_value(self, value: object, dialect: sa.Dialect) -> str | None:  # noqa: ARG002 - SQLAlchemy's signature
        """Turn the driver's answer into text."""
        return None if value is None else str(value)


def uuid() -> sa.Uuid[str]:
    """Return the column type of a UUID, which is text in Python."""
    return sa.Uuid(as_uuid=False)


def text_list() -> sa.types.TypeEngine[Any]:
    """TEXT[] on PostgreSQL, a JSON list elsewhere."""
    return sa.JSON().with_variant(sa.ARRAY(sa.Text()), "postgresql")


def choice(values: type[StrEnum], name: str) -> sa.Enum:
    """ENUM with the members' values; on SQLite text with a CHECK."""
    return sa.Enum(
        values, values_callable=lambda kind: [member.value for member in kind], name=name, create_constraint=True
    )
