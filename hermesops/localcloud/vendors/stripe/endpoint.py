"""The address that takes the stand-in's events: the environment's API, or the door of its platform.

At Stripe an operator enters the address once, in the dashboard. Here ``stack up platform`` writes it to a file of the
world when the platform begins to serve users, and the stand-in reads that file for each delivery.
"""

import ssl
from dataclasses import asdict, dataclass
from pathlib import Path

import httpx

from hermesops.base.network.http import blank_context, own_client
from hermesops.localcloud.world.files import read_object, write_object

EVENTS_PATH = "/webhooks/stripe/hermes"
"""Path of the users' API that takes Stripe's events."""

_WITHIN_S = 10.0


@dataclass(frozen=True)
class EventEndpoint:
    """An address that takes events.

    Attributes:
        url: Whole address; empty for none.
        host: Name that the request asks for; empty for the one in ``url``.
        authorities: Certificates that the address may be signed by, PEM; empty for an address without TLS.
    """

    url: str = ""
    host: str = ""
    authorities: str = ""

    async def take(self, body: str, signature: str) -> bool:
        """Send an event; whether it was taken, which a refusal and silence are not."""
        headers = {"stripe-signature": signature} | ({"host": self.host} if self.host else {})
        try:
            async with own_client(verify=self._context(), timeout=_WITHIN_S) as http:
                return (await http.post(self.url, content=body, headers=headers)).is_success
        except (httpx.HTTPError, ssl.SSLError):
            return False

    def _context(self) -> ssl.SSLContext | None:
        if not self.authorities:
            return None
        context = blank_context()
        context.load_verify_locations(cadata=self.authorities)
        return context


def write_endpoint(file: Path, endpoint: EventEndpoint) -> None:
    """Have the next delivery, and all after it, go to this address."""
    write_object(file, asdict(endpoint))


def endpoint_in(file: Path, otherwise: EventEndpoint) -> EventEndpoint:
    """The address in a file; ``otherwise`` where there is no file.

    Raises:
        BrokenInvariantError: The file is damaged.
    """
    fields = read_object(file)
    if fields is None:
        return otherwise
    return EventEndpoint(*(str(fields.get(name, "")) for name in ("url", "host", "authorities")))
