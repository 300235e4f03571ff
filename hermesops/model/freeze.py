"""Freezes: spans of time in which nothing is rolled out."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True)
class Freeze:
    """A row of ``freezes``.

    Attributes:
        ends_at: ``None`` while only lifting it ends it.
        reason: Shown to those that it stops.
    """

    id: str
    begins_at: datetime
    ends_at: datetime | None
    reason: str
    who: str
    lifted_at: datetime | None = None

    def holds_at(self, now: datetime) -> bool:
        """Whether it forbids rollouts at that moment."""
        return self.lifted_at is None and self.begins_at <= now and (self.ends_at is None or now < self.ends_at)

    def is_past(self, now: datetime) -> bool:
        """Whether it is over."""
        return self.lifted_at is not None or (self.ends_at is not None and self.ends_at <= now)
