"""How much a sender may use: so much a second, and what it did not use, up to a limit, later. Pure but for time."""

from dataclasses import dataclass


@dataclass(slots=True)
class Allowance:
    """An amount that comes back by the second.

    It is overdrawn by what was let in before anybody knew what it takes; until that has come back, nothing more is let
    in. So a sender gets ``per_s`` in the long run, and ``most`` with one more request at once.

    Attributes:
        most: What there is when nothing was used for long.
        used: Not yet come back.
        at_s: When that was so.
    """

    per_s: float
    most: float
    at_s: float
    used: float = 0.0

    def is_overdrawn(self, now_s: float) -> bool:
        """Whether more was used than there is."""
        # A clock that was put back gives nothing back, and takes nothing away.
        self.used = max(0.0, self.used - self.per_s * max(0.0, now_s - self.at_s))
        self.at_s = now_s
        return self.used >= self.most

    def use(self, amount: float) -> None:
        """Take away what was used."""
        self.used += amount
