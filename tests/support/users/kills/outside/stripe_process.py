"""The stand-in of Stripe as a process of its own, which writes down each event that it sends.

Run ``python -m tests.support.users.kills.outside.stripe_process FOLDER PORT ENDPOINT``. The folder takes its key, its
signing secret, its account and ``events.sent``, a line for each event.
"""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.routing import Mount

from hermesops.api.server import Server
from hermesops.cli.listener import listen
from hermesops.localcloud.vendors.stripe.books import PRICES
from hermesops.localcloud.vendors.stripe.meters import METERS
from hermesops.localcloud.vendors.stripe.server import PREFIX, LocalStripe
from hermesops.localcloud.world.files import WorldFiles, key_of

EVENTS = "events.sent"


class RecordedStripe(LocalStripe):
    """The stand-in.

    Args:
        sent: Takes a line for each event.
    """

    def __init__(self, sent: Path, url: str, secret: str, endpoint: str, account: Path) -> None:
        self._sent = sent
        super().__init__(url, secret, endpoint, file=account)

    async def _deliver(self, body: str) -> None:
        with self._sent.open("a", encoding="utf-8") as lines:
            lines.write(f"{body}\n")
        await super()._deliver(body)


def facts(url: str) -> Mapping[str, Any]:
    """Facts of a world that has this stand-in, as ``world.json`` names them."""
    return {
        "stripe_url": url,
        "stripe_prices": {price: plan for price, (plan, _) in PRICES.items()},
        "stripe_meters": {meter.counts: meter.event_name for meter in METERS},
        "stripe_metered_prices": sorted(meter.price for meter in METERS),
    }


async def _serve(folder: Path, port: int, endpoint: str) -> None:
    files, listener = WorldFiles(folder), listen(f"127.0.0.1:{port}", "stripe")
    key_of(files.stripe_key, "sk_test_")
    secret = key_of(files.stripe_secret, "whsec_")
    stripe = RecordedStripe(folder / EVENTS, f"http://127.0.0.1:{port}{PREFIX}", secret, endpoint, files.stripe)
    await Server(Starlette(routes=[Mount(PREFIX, routes=stripe.routes())]), listener).serve_until_cancelled()


if __name__ == "__main__":
    asyncio.run(_serve(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]))
