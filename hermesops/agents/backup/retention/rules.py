"""Retention: chooses the backups to delete. Pure."""

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_YOUNG = timedelta(hours=24)


@dataclass(frozen=True)
class Keep:
    """How much is kept: the newest backup of each of the last so many days, weeks and months that have one."""

    daily: int
    weekly: int
    monthly: int


_PERIODS: tuple[tuple[str, Callable[[datetime], tuple[int, ...]]], ...] = (
    ("daily", lambda at: (at.year, at.month, at.day)),
    ("weekly", lambda at: at.isocalendar()[:2]),
    ("monthly", lambda at: (at.year, at.month)),
)


def going(made_at: Mapping[str, datetime], keep: Keep, now: datetime, *, spared: Collection[str] = ()) -> list[str]:
    """Ids of the backups to delete, oldest first; never the newest, and none of the last day.

    Args:
        made_at: Time of each backup, by id.
        spared: Ids that stay in any case.
    """
    newest_first = sorted(made_at, key=lambda id_: (made_at[id_], id_), reverse=True)
    remaining = {*spared, *newest_first[:1], *(id_ for id_ in made_at if now - made_at[id_] < _YOUNG)}
    for name, period_of in _PERIODS:
        periods: dict[tuple[int, ...], str] = {}
        for id_ in newest_first:
            periods.setdefault(period_of(made_at[id_].astimezone(UTC)), id_)
        remaining.update(list(periods.values())[: getattr(keep, name)])
    return [id_ for id_ in reversed(newest_first) if id_ not in remaining]
