"""A rate limit per sender: an unused amount is saved for later, up to a maximum. Pure but for time."""

from dataclasses import dataclass

DEBT_S = 120.0
"""Seconds in which the largest debt is replenished: a sender that behaves again is heard again so soon."""


@dataclass(slots=True)
class Allowance:
    """An amount that is replenished every second.

    An admitted request may overdraw the amount, as its cost is unknown beforehand; further requests wait until the debt
    is replenished, ``DEBT_S`` at the longest. So a sender gets ``per_s`` in the long run, unless single requests cost
    more than the largest debt, and ``most`` plus one request at once.

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

    @property
    def most_debt(self) -> float:
        """The largest amount that may be used beyond ``most``."""
        return self.per_s * DEBT_S

    @property
    def left(self) -> float:
        """The amount that may be used without a debt; negative in debt."""
        return self.most - self.used

    def use(self, amount: float) -> None:
        """Add a used amount, even beyond ``most``; what exceeds the largest debt is forgiven."""
        self.used = min(self.used + amount, self.most + self.most_debt)
