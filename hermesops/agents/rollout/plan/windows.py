"""When machines may be changed: maintenance windows, freezes, quiet hours. Pure: the time is an argument.

A window is written as ``Mon-Fri 09:00-17:00 Europe/Berlin`` or ``Sat,Sun 22:00-02:00 UTC``; days are those on which it
opens. Its hours are those of its time zone, also when that zone's clocks change.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time, timedelta
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from hermesops.errors import UsageError
from hermesops.model.fleet.instance import QuietHours
from hermesops.model.rollout.records import Freeze

_DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_WINDOW = re.compile(r"(?P<days>\S+)\s+(?P<begin>\d\d:\d\d)-(?P<end>\d\d:\d\d)(?:\s+(?P<zone>\S+))?")


@dataclass(frozen=True)
class Window:
    """Hours of every week.

    Attributes:
        days: Weekdays on which it opens, Monday is 0.
        end: Before or at ``begin`` where it spans midnight.
    """

    days: frozenset[int]
    begin: time
    end: time
    zone: ZoneInfo

    def spans(self, now: datetime) -> Iterable[tuple[datetime, datetime]]:
        """Each opening from yesterday's to that of a week later."""
        today = now.astimezone(self.zone).date()
        for offset in range(-1, 8):
            day = today + timedelta(days=offset)
            if day.weekday() in self.days:
                closes = day if self.begin < self.end else day + timedelta(days=1)
                begins = datetime.combine(day, self.begin, self.zone)
                ends = datetime.combine(closes, self.end, self.zone)
                yield begins.astimezone(UTC), ends.astimezone(UTC)


def parse_window(text: str) -> Window:
    """A window as an operator wrote it.

    Raises:
        UsageError: It is no window.
    """
    match = _WINDOW.fullmatch(text.strip())
    hint = "write it as 'Mon-Fri 09:00-17:00 Europe/Berlin'"
    if match is None:
        raise UsageError(f"{text!r} is no maintenance window", hint=hint)
    try:
        days = frozenset(day for part in match["days"].lower().split(",") for day in _days(part))
        zone = ZoneInfo(match["zone"] or "UTC")
        return Window(days, time.fromisoformat(match["begin"]), time.fromisoformat(match["end"]), zone)
    except (ValueError, ZoneInfoNotFoundError) as error:
        raise UsageError(f"{text!r} is no maintenance window: {error}", hint=hint) from error


def _days(part: str) -> Iterable[int]:
    first, _, last = part.partition("-")
    if first not in _DAYS or (last or first) not in _DAYS:
        raise ValueError(f"{part!r} names no day of the week")
    begin, end = _DAYS.index(first), _DAYS.index(last or first)
    return ((begin + step) % len(_DAYS) for step in range((end - begin) % len(_DAYS) + 1))


@dataclass(frozen=True)
class Closed:
    """No machine may be changed now.

    Attributes:
        until: When that may be over; ``None`` where only an operator ends it.
    """

    until: datetime | None
    why: str


def closed_at(now: datetime, windows: Sequence[str], freezes: Iterable[Freeze]) -> Closed | None:
    """The freeze or window that forbids changes at a moment; ``None`` for none."""
    for freeze in freezes:
        if freeze.holds_at(now):
            ends = f"until {freeze.ends_at:%Y-%m-%d %H:%M} UTC" if freeze.ends_at else "until it is lifted"
            return Closed(freeze.ends_at, f"frozen by {freeze.who} {ends}: {freeze.reason}")
    spans = [span for window in windows for span in parse_window(window).spans(now)]
    if not windows or any(begins <= now < ends for begins, ends in spans):
        return None
    opens = min(begins for begins, _ in spans if begins > now)
    return Closed(opens, f"outside the maintenance windows; the next one opens at {opens:%Y-%m-%d %H:%M} UTC")


def quiet_until(now: datetime, quiet: QuietHours) -> datetime:
    """When quiet hours end that hold at a moment."""
    there = now.astimezone(ZoneInfo(quiet.timezone))
    ends = datetime.combine(there.date(), quiet.end, ZoneInfo(quiet.timezone))
    if ends <= there:
        ends = datetime.combine(there.date() + timedelta(days=1), quiet.end, ZoneInfo(quiet.timezone))
    return ends.astimezone(UTC)
