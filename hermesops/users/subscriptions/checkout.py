"""Stripe's pages for users: checkout sessions and sessions of the customer portal; and the end of a subscription.

Source: https://docs.stripe.com/api/checkout/sessions, https://docs.stripe.com/api/customer_portal/sessions.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any, TypeVar
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hermesops.errors import UnavailableError
from hermesops.model.billing.checkout import LIFE, Checkout, CheckoutStatus
from hermesops.model.ids import UserId
from hermesops.users.billing.stripe_api import StripeApi


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)


P = TypeVar("P", bound=_Part)
_Url = Annotated[str, Field(max_length=4096, pattern=r"^https?://[!-~]+$")]


class _Object(_Part):
    id: Annotated[str, Field(pattern=r"^[A-Za-z0-9_.-]{1,255}$")]


class _Session(_Object):
    status: str
    url: _Url | None = None
    subscription: str | _Object | None = None


class _Portal(_Part):
    url: _Url


class _OfCustomer(_Part):
    customer: str | _Object


@dataclass(frozen=True)
class StripePages:
    """Pages of Stripe's for users.

    Attributes:
        user_key: Of a subscription's metadata, which has the user's id.
        metered_prices: Prices of meters, which each subscription has beside its plan's.
    """

    api: StripeApi
    user_key: str
    metered_prices: Sequence[str] = ()

    async def begin(
        self, request_id: str, user_id: UserId, price: str, *, back: str, customer: str, asked_at: datetime
    ) -> Checkout:
        """Make the checkout session of a request; the same request has one, however often this is done.

        Args:
            back: Address of the page to which the browser comes back.
            customer: Stripe's id of the user from an earlier subscription; empty for a new one.
            asked_at: Time of the request.

        Raises:
            UnavailableError: Stripe does not answer, or in another form.
            StripeRefusedError: It takes no such session.
            RefusedError: The key may not do that.
        """
        params: dict[str, Any] = {
            "mode": "subscription",
            "client_reference_id": user_id,
            # Stripe takes no quantity for a price of a meter.
            "line_items": [{"price": price, "quantity": 1}, *({"price": metered} for metered in self.metered_prices)],
            "metadata": {self.user_key: user_id},
            "subscription_data": {"metadata": {self.user_key: user_id}},
            "success_url": back,
            "cancel_url": back,
            "expires_at": int((asked_at + LIFE).timestamp()),
            **({"customer": customer} if customer else {}),
        }
        options = {"idempotency_key": f"checkout-{request_id}"}
        answer = await self.api.ask(lambda v1: v1.checkout.sessions.create(params, options), about=f"price {price}")
        return self._checkout(answer.content)

    async def observe(self, session_id: str) -> Checkout:
        """A checkout session as it is now; raises as ``begin``."""
        answer = await self.api.ask(lambda v1: v1.checkout.sessions.retrieve(session_id), about="such checkout page")
        return self._checkout(answer.content)

    async def close(self, session_id: str) -> None:
        """Close the page of an open checkout session; raises as ``begin``, also where it is not open any more."""
        await self.api.ask(lambda v1: v1.checkout.sessions.expire(session_id), about="open checkout page")

    async def portal(self, customer: str, *, back: str) -> str:
        """The address of a page where a customer changes card, address and plan; raises as ``begin``."""
        params = {"customer": customer, "return_url": back}
        answer = await self.api.ask(lambda v1: v1.billing_portal.sessions.create(params), about="such customer")
        return _safe(_parsed(_Portal, answer.content).url)

    async def customer_of(self, subscription_id: str) -> str:
        """Stripe's id of whoever pays a subscription; raises as ``begin``."""
        answer = await self.api.ask(
            lambda v1: v1.subscriptions.retrieve(subscription_id), about=f"subscription {subscription_id}"
        )
        return _id_of(_parsed(_OfCustomer, answer.content).customer)

    async def end_with_period(self, subscription_id: str) -> None:
        """End a subscription with the period that is paid; raises as ``begin``."""
        await self.api.ask(
            lambda v1: v1.subscriptions.update(subscription_id, {"cancel_at_period_end": True}),
            about=f"subscription {subscription_id} that goes on",
        )

    @staticmethod
    def _checkout(content: Mapping[str, Any]) -> Checkout:
        read = _parsed(_Session, content)
        if read.status not in set(CheckoutStatus):
            raise UnavailableError("Stripe's checkout session has a status that is not known here")
        return Checkout(read.id, CheckoutStatus(read.status), _safe(read.url or ""), _id_of(read.subscription))


def _id_of(reference: str | _Object | None) -> str:
    return reference.id if isinstance(reference, _Object) else reference or ""


def _parsed(kind: type[P], content: Mapping[str, Any]) -> P:
    try:
        return kind.model_validate(content)
    except ValidationError as error:
        raise UnavailableError("Stripe's answer cannot be read") from error


def _safe(url: str) -> str:
    """Pass an address to which a browser may be sent: over TLS, or on this computer's loopback.

    Raises:
        UnavailableError: It is another one.
    """
    parts = urlsplit(url)
    if url and parts.scheme != "https" and parts.hostname not in {"localhost", "127.0.0.1"}:
        raise UnavailableError("Stripe's page has no safe address")
    return url
