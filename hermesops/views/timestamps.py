"""Times as all shapes have them."""

from datetime import datetime

_UNITS = {"d": 86_400, "h": 3_600, "min": 60, "s": 1}


def timestamp(when: datetime | None) -> str | None:
    """ISO 8601 in UTC, to the second."""
    return when.isoformat(timespec="seconds") if when else None


def span(seconds: float) -> str:
    """A stretch of time in its two largest units, as ``3 h 5 min``; ``-`` for one that cannot be."""
    if seconds < 0:
        return "-"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


class Age(int):
    """Seconds since something happened: sorted by their number, shown in the largest unit, as ``3 d``."""

    def __str__(self) -> str:
        unit, seconds = next((unit for unit in _UNITS.items() if self >= unit[1]), ("s", 1))
        return f"{max(0, self) // seconds} {unit}"
