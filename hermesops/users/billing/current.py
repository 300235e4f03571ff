"""Reads the current subscription from Stripe's API, before anything is done about it."""

import asyncio
from dataclasses import dataclass, field
from datetime import UTC, datetime

from pydantic import ValidationError

from hermesops.base.extras import Extra, require
from hermesops.base.network.sessions import session
from hermesops.base.network.variables import NetworkVariables, proxy_hint
from hermesops.errors import Hint, RefusedError, UnavailableError
from hermesops.model.billing.events import BillingFact
from hermesops.users.billing.events import fact_of_subscription

_TRIES = 2
_TIMEOUT_S = 10


@dataclass(frozen=True)
class StripeSubscriptions:
    """Subscriptions at Stripe.

    Attributes:
        key: An API key that may read them.
        user_key: Of a subscription's metadata, which has the user's id.
        product: As in ``events.Rules``.
        base_url: Of Stripe's API; empty for its own.
    """

    key: str = field(repr=False)
    user_key: str
    product: str = ""
    base_url: str = ""

    async def get(self, subscription_id: str) -> BillingFact:
        """A subscription as it is now, as if an event had just said so.

        Raises:
            UnavailableError: Stripe does not answer.
            RefusedError: It does not know that subscription, or the key may not read it.
        """
        return await asyncio.to_thread(self._get, subscription_id)

    def _get(self, subscription_id: str) -> BillingFact:
        require(Extra.BILLING, "asking Stripe about a subscription")
        import stripe  # noqa: PLC0415 - takes a third of a second, and only this needs it

        at = self.base_url or stripe.DEFAULT_API_BASE
        to_stripe = session(at, whom="Stripe")
        if isinstance(to_stripe.verify, str):  # the library brings authorities of its own, and asks no others
            stripe.ca_bundle_path = to_stripe.verify
        client = stripe.StripeClient(
            self.key,
            max_network_retries=_TRIES,
            # The library would send a user and password of ~/.netrc in the place of the key.
            http_client=stripe.RequestsClient(timeout=_TIMEOUT_S, session=to_stripe),
            base_addresses={"api": self.base_url} if self.base_url else {},
        )
        try:
            answer = client.v1.subscriptions.retrieve(subscription_id).to_dict()
        except (stripe.AuthenticationError, stripe.PermissionError) as error:
            raise RefusedError("Stripe refuses billing.key", hint=Hint(("secrets", "check", "billing.key"))) from error
        except stripe.InvalidRequestError as error:
            raise RefusedError(f"Stripe knows no subscription {subscription_id}") from error
        except stripe.APIConnectionError as error:
            if proxy := NetworkVariables.of_process().proxy_for(at):
                problem = f"Stripe does not answer through the proxy {proxy.shown}, which {proxy.variable} names"
                raise UnavailableError(problem, hint=proxy_hint(proxy)) from error
            raise UnavailableError(f"Stripe does not answer: {type(error).__name__}") from error
        except stripe.StripeError as error:
            raise UnavailableError(f"Stripe does not answer: {type(error).__name__}") from error
        try:
            read = fact_of_subscription(
                answer, asked_at=datetime.now(UTC), user_key=self.user_key, product=self.product
            )
        except ValidationError as error:
            raise UnavailableError(f"Stripe's answer about {subscription_id} cannot be read") from error
        if read.fact is None:
            raise RefusedError(f"{subscription_id}: {read.problem or read.note}")
        return read.fact
