"""When and in which order rollouts may change an instance."""

from dataclasses import dataclass
from datetime import datetime, time
from zoneinfo import ZoneInfo


@dataclass(frozen=True)
class QuietHours:
    """Hours of the user's own day in which the agent is left alone.

    Attributes:
        begin: On the user's clock.
        end: Likewise; before ``begin`` where the hours span midnight.
        timezone: An IANA name.
    """

    begin: time
    end: time
    timezone: str = "UTC"

    def hold_at(self, now: datetime) -> bool:
        """Whether that moment is quiet; ``begin`` belongs to the hours, ``end`` does not."""
        there = now.astimezone(ZoneInfo(self.timezone)).time()
        if self.begin <= self.end:
            return self.begin <= there < self.end
        return there >= self.begin or there < self.end


@dataclass(frozen=True)
class InstancePolicy:
    """A row of ``instance_policies``, or the default.

    Attributes:
        opted_in: Gets new releases first.
        protected: Gets them last.
    """

    opted_in: bool = False
    protected: bool = False
    quiet: QuietHours | None = None
