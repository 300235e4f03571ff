"""Reads subscriptions from Stripe's API: one before anything is done about it, or all of them, page by page."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import ValidationError

from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.billing.events import BillingFact
from hermesops.users.billing.events import ReadEvent, fact_of_subscription
from hermesops.users.billing.stripe_api import StripeApi

PAGE = 100
"""Subscriptions of a page: the most that Stripe gives.

Source: https://docs.stripe.com/api/pagination.
"""


@dataclass(frozen=True)
class StripeSubscriptions:
    """Subscriptions at Stripe.

    Attributes:
        api: With a key that may read them.
        user_key: Of a subscription's metadata, which has the user's id.
        product: As in ``events.Rules``.
    """

    api: StripeApi
    user_key: str
    product: str = ""

    async def get(self, subscription_id: str) -> BillingFact:
        """A subscription as it is now, as if an event had just said so.

        Raises:
            UnavailableError: Stripe does not answer.
            RefusedError: It does not know that subscription, or the key may not read it.
        """
        answer = await self.api.ask(
            lambda v1: v1.subscriptions.retrieve(subscription_id), about=f"subscription {subscription_id}"
        )
        read = self._read(answer.content, answer.at)
        if read is None:
            raise UnavailableError(f"Stripe's answer about {subscription_id} cannot be read")
        if read.fact is None:
            raise RefusedError(f"{subscription_id}: {read.problem or read.note}")
        return read.fact

    async def pages(self, *, most: int) -> AsyncIterator[tuple[ReadEvent | None, ...]]:
        """All subscriptions, ended ones too, the newest first; ``None`` for one that cannot be read.

        Args:
            most: Pages.

        Raises:
            UnavailableError: Stripe does not answer, or has more pages than that.
            RefusedError: The key may not read them.
        """
        after = ""
        for _ in range(most):
            params = {"status": "all", "limit": PAGE, **({"starting_after": after} if after else {})}
            answer = await self.api.ask(lambda v1, params=params: v1.subscriptions.list(params))  # type: ignore[misc] # mypy types no default
            rows = answer.content.get("data")
            if not isinstance(rows, list) or len(rows) > PAGE:
                raise UnavailableError("Stripe's list of subscriptions cannot be read")
            yield tuple(self._read(row, answer.at) if isinstance(row, Mapping) else None for row in rows)
            last = rows[-1].get("id") if rows and isinstance(rows[-1], Mapping) else None
            if not answer.content.get("has_more"):
                return
            if not isinstance(last, str) or last == after:
                raise UnavailableError("Stripe's list of subscriptions does not go on")
            after = last
        raise UnavailableError(f"Stripe has more than {most * PAGE} subscriptions")

    def _read(self, answer: Mapping[str, Any], at: datetime) -> ReadEvent | None:
        try:
            return fact_of_subscription(answer, asked_at=at, user_key=self.user_key, product=self.product)
        except ValidationError:
            return None
