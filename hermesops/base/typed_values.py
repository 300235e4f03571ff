"""Values as operators type them: moments, durations, shares, one of several words."""

import re
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import TypeVar

from hermesops.errors import UsageError

K = TypeVar("K", bound=StrEnum)

_UNITS = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
_AGE = re.compile(r"(\d{1,6})([smhdw])")
_LONGEST = timedelta(days=36_500)
"""No date that follows from a longer span could be told."""


def since(text: str, *, now: datetime | None = None) -> datetime:
    """Parse a moment, in UTC: ``90m``, ``7d``, ``2026-11-22`` or ``2026-11-22T04:30+05:45``.

    A time without an offset is UTC, whatever the computer's time zone.

    Raises:
        UsageError: The text is not a time.
    """
    return _timestamp(text, now or datetime.now(UTC), -1)


def until(text: str, *, now: datetime | None = None) -> datetime:
    """The moment as ``since`` reads it, with spans counted into the future: ``12h`` is in twelve hours.

    Raises:
        UsageError: The text is not a time.
    """
    return _timestamp(text, now or datetime.now(UTC), 1)


def seconds(text: str, option: str) -> float:
    """Seconds of a span such as ``90``, ``90s``, ``10m``, ``24h`` or ``7d``; errors name the option.

    Raises:
        UsageError: The text is no duration, or one of more than a hundred years.
    """
    span = _AGE.fullmatch(text if not text.isdigit() else f"{text}s")
    if span is None or _length(span) > _LONGEST:
        raise UsageError(f"{option} {text!r} is no span of time, as 90s, 10m, 24h")
    return _length(span).total_seconds()


def share(text: str, option: str) -> float:
    """The part of 1 that ``5%`` or ``0.05`` is; errors name the option.

    Raises:
        UsageError: The text is no number above 0 and up to 1.
    """
    try:
        number = float(text.strip().removesuffix("%")) / (100 if text.strip().endswith("%") else 1)
    except ValueError:
        number = 0.0
    if not 0 < number <= 1:
        raise UsageError(f"{option} {text!r} is no share, as 5% or 0.05")
    return number


def one_of(kind: type[K], text: str, option: str) -> K:
    """The member of an enumeration that a word names; errors name the option.

    Raises:
        UsageError: It names none.
    """
    try:
        return kind(text.strip())
    except ValueError:
        raise UsageError(f"{option} {text!r}: one of {', '.join(kind)}") from None


def _timestamp(text: str, now: datetime, direction: int) -> datetime:
    age = _AGE.fullmatch(text)
    try:
        if age:
            return now + direction * _length(age)
        timestamp = datetime.fromisoformat(text)
        return timestamp.astimezone(UTC) if timestamp.tzinfo else timestamp.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise UsageError(
            f"{text!r} is not a time",
            hint="a span (90m, 12h, 7d), or a date or time in ISO 8601, in UTC unless it names an offset "
            "(2026-11-22, 2026-11-22T04:30, 2026-11-22T04:30+05:45)",
        ) from None


def _length(span: re.Match[str]) -> timedelta:
    return timedelta(**{_UNITS[span[2]]: int(span[1])})
