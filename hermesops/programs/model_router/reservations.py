"""What open requests may still cost, so that many at once cannot spend more than is left.

A reservation ends when its cost is charged, or when its answer was an error. One whose cost nobody tells ends by
itself, and so do all when the router ends: they are in memory alone.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from hermesops.model.ids import InstanceId
from hermesops.model.model_usage import NOTHING, Spent

LONGEST_S = 900.0
SETTLED_WITHIN_S = 60.0
"""Seconds after the end of an answer within which LiteLLM tells its cost; it does so a moment later."""


@dataclass
class _Held:
    instance_id: InstanceId
    most: Spent
    ends_at: float


class Reservations:
    """Reservations of all instances, by an id that goes with each request.

    Args:
        longest_s: Seconds after which an answer is cut off; a reservation whose end is never told lasts longer than
            that by what telling its cost may take.
        clock: Seconds that never go back; for tests.
    """

    def __init__(self, longest_s: float = LONGEST_S, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._longest_s = longest_s + SETTLED_WITHIN_S
        self._clock = clock
        self._held: dict[str, _Held] = {}
        self._ids = itertools.count(1)

    def hold(self, instance_id: InstanceId, most: Spent) -> str:
        """Reserve; returns the reservation's id."""
        reservation = str(next(self._ids))
        self._held[reservation] = _Held(instance_id, most, self._clock() + self._longest_s)
        return reservation

    def of(self, instance_id: InstanceId) -> Spent:
        """The sum of an instance's reservations."""
        now = self._clock()
        self._held = {key: one for key, one in self._held.items() if one.ends_at > now}
        return sum((one.most for one in self._held.values() if one.instance_id == instance_id), NOTHING)

    def settle(self, reservation: str) -> None:
        """Its cost was charged; an id that is not known any more is no error."""
        self._held.pop(reservation, None)

    def answered(self, reservation: str, *, is_free: bool) -> None:
        """Its answer has ended.

        Args:
            is_free: Whether it cost nothing; else its cost is told within a minute.
        """
        if is_free:
            self.settle(reservation)
        elif held := self._held.get(reservation):
            held.ends_at = min(held.ends_at, self._clock() + SETTLED_WITHIN_S)
