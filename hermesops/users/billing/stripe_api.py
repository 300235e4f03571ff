"""Stripe's API by Stripe's own library: one client, its limits, and its errors as ours."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any

from hermesops.base.extras import Extra, require
from hermesops.base.network.sessions import session
from hermesops.base.network.variables import NetworkVariables, proxy_hint
from hermesops.errors import Hint, RefusedError, UnavailableError

_TRIES = 2
_MOST_MESSAGE = 1000
_TIMEOUT_S = 10


class StripeRefusedError(RefusedError):
    """Stripe refuses the request as it is, as for an unknown id.

    Attributes:
        vendor_message: Stripe's words, for programs alone.
    """

    vendor_message = ""


@dataclass(frozen=True)
class StripeAnswer:
    """An answer of Stripe's.

    Attributes:
        content: As JSON; not checked.
        at: When Stripe gave it, by Stripe's clock; by this computer's where it does not say.
    """

    content: Mapping[str, Any] = field(repr=False)
    at: datetime


@dataclass(frozen=True)
class StripeApi:
    """Stripe's API.

    Attributes:
        key: A secret or restricted API key.
        base_url: Of the API; empty for Stripe's own.
    """

    key: str = field(repr=False)
    base_url: str = ""

    async def ask(self, call: Callable[[Any], Any], *, about: str = "that") -> StripeAnswer:
        """Make one call in a thread, within some seconds; it is repeated where no answer comes.

        Args:
            call: Takes Stripe's client, and returns one of its objects.
            about: The requested thing, for errors.

        Raises:
            UnavailableError: Stripe does not answer.
            StripeRefusedError: See there.
            RefusedError: The key may not do that.
        """
        return await asyncio.to_thread(self._ask, call, about)

    def _ask(self, call: Callable[[Any], Any], about: str) -> StripeAnswer:
        require(Extra.BILLING, "asking Stripe")
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
            answer = call(client.v1)
        except (stripe.AuthenticationError, stripe.PermissionError) as error:
            raise RefusedError("Stripe refuses billing.key", hint=Hint(("secrets", "check", "billing.key"))) from error
        except stripe.InvalidRequestError as error:
            refused = StripeRefusedError(f"Stripe knows no {about}")
            refused.vendor_message = str(error.user_message or "")[:_MOST_MESSAGE]
            raise refused from error
        except stripe.APIConnectionError as error:
            if proxy := NetworkVariables.of_process().proxy_for(at):
                problem = f"Stripe does not answer through the proxy {proxy.shown}, which {proxy.variable} names"
                raise UnavailableError(problem, hint=proxy_hint(proxy)) from error
            raise UnavailableError(f"Stripe does not answer: {type(error).__name__}") from error
        except stripe.StripeError as error:
            raise UnavailableError(f"Stripe does not answer: {type(error).__name__}") from error
        return StripeAnswer(answer.to_dict(), _date_of(answer))


def _date_of(answer: Any) -> datetime:  # noqa: ANN401 - any object of the library
    """The time of an answer, from its header ``Date``."""
    response = answer.last_response
    text = response.headers.get("Date", "") if response is not None else ""
    try:
        at = parsedate_to_datetime(text)
    except (TypeError, ValueError):
        return datetime.now(UTC)
    return at.astimezone(UTC) if at.tzinfo else datetime.now(UTC)
