"""Sums of ``metered_usage``: usage of a user's agent as the plan page shows it."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from hermesops.model.billing.metering import MeteredSum
from hermesops.model.ids import UserId
from hermesops.store.registry.database import Database
from hermesops.store.registry.repositories.metering import sums_of

_LONGEST = timedelta(days=31)
"""Period that is shown where Stripe's is not known."""


@dataclass(frozen=True)
class MeteredSums:
    """Sums of each user's metered usage, by meter."""

    database: Database

    def get(self, user_id: UserId, begin: datetime | None) -> tuple[MeteredSum, ...]:
        """A user's usage by meter.

        Args:
            begin: Of the period that is not paid yet; ``None`` for the last 31 days.

        Raises:
            UnavailableError: The database does not answer.
        """
        if begin is None:
            with self.database.reading() as connection:
                begin = self.database.now(connection) - _LONGEST
        return sums_of(self.database, user_id, begin)
