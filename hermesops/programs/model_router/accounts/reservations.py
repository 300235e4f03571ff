"""Reservations of open requests, so that concurrent requests cannot spend more than the budget.

A reservation ends when its cost is charged, or when its answer was an error. A reservation whose cost is never reported
expires. Reservations are in memory alone, so they end with the router.
"""

import itertools
import time
from collections.abc import Callable
from dataclasses import dataclass

from hermesops.model.billing.model_usage import NOTHING, Spent
from hermesops.model.ids import InstanceId

LONGEST_S = 900.0
SETTLED_WITHIN_S = 60.0
"""Seconds after the end of an answer within which LiteLLM tells its cost; it does so a moment later."""


@dataclass
class _Held:
    instance_id: InstanceId
    most: Spent
    ends_at: float


class Reservations:
    """Reservations of all instances, by id; the id accompanies the request.

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
        """Make a reservation; return its id."""
        reservation = str(next(self._ids))
        self._held[reservation] = _Held(instance_id, most, self._clock() + self._longest_s)
        return reservation

    def of(self, instance_id: InstanceId) -> Spent:
        """The sum of an instance's reservations."""
        now = self._clock()
        self._held = {key: entry for key, entry in self._held.items() if entry.ends_at > now}
        return sum((entry.most for entry in self._held.values() if entry.instance_id == instance_id), NOTHING)

    def settle(self, reservation: str) -> None:
        """Remove a reservation after its cost was charged; an unknown id is no error."""
        self._held.pop(reservation, None)

    def answered(self, reservation: str, *, is_free: bool) -> None:
        """Shorten a reservation whose answer has ended.

        Args:
            is_free: Whether the answer cost nothing; otherwise its cost is reported within a minute.
        """
        if is_free:
            self.settle(reservation)
        elif entry := self._held.get(reservation):
            entry.ends_at = min(entry.ends_at, self._clock() + SETTLED_WITHIN_S)
