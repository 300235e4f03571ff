"""A rate limit per sender: an unused amount is saved for later, up to a maximum. Pure but for time."""

from dataclasses import dataclass


@dataclass(slots=True)
class Allowance:
    """An amount that is replenished every second.

    An admitted request may overdraw the amount, as its cost is unknown beforehand; further requests wait until the debt
    is replenished. So a sender gets ``per_s`` in the long run, and ``most`` plus one request at once.

    Attributes:
        most: The amount after a long time without use.
        used: The used amount that is not replenished yet.
        at_s: Time of ``used``, in seconds.
    """

    per_s: float
    most: float
    at_s: float
    used: float = 0.0

    def is_overdrawn(self, now_s: float) -> bool:
        """Whether the used amount has reached ``most``."""
        # A clock that was put back gives nothing back, and takes nothing away.
        self.used = max(0.0, self.used - self.per_s * max(0.0, now_s - self.at_s))
        self.at_s = now_s
        return self.used >= self.most

    def use(self, amount: float) -> None:
        """Add a used amount, even beyond ``most``."""
        self.used += amount
