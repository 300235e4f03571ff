"""Reads prices of machines from the vendor, once for each region."""

from collections.abc import Iterable
from decimal import Decimal

from hermesops.agents.cells.cost.bill import PriceList, Rentable
from hermesops.errors import UnavailableError
from hermesops.vendor.justavps.client import Client


async def prices_of(vendor: Client, machines: Iterable[Rentable]) -> PriceList:
    """The prices in the regions of some machines; none for a region of which the vendor does not answer."""
    monthly: dict[tuple[str, str], Decimal] = {}
    for region in sorted({machine.region for machine in machines}):
        try:
            sold = await vendor.list_server_types(region=region)
        except UnavailableError:
            continue
        # Through text: a float of 17.1 is not quite $17.10.
        monthly |= {
            (region, offer.name): Decimal(str(offer.price_monthly)) for offer in sold if offer.price_monthly is not None
        }
    return PriceList(monthly)


async def list_price(vendor: Client, region: str, server_type: str) -> Decimal | None:
    """The price of a new machine, US dollars a month; ``None`` where the vendor does not say.

    Raises:
        UnavailableError: The vendor does not answer.
    """
    sold = await vendor.list_server_types(region=region)
    prices = (offer.price_monthly for offer in sold if offer.name == server_type)
    return next((Decimal(str(price)) for price in prices if price is not None), None)
