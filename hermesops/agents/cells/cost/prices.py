"""Reads prices of machines from the vendor, once for each region."""

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractAsyncContextManager
from decimal import Decimal

from hermesops.agents.cells.cost.bill import Cost, PriceList, Rentable, bill_of
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


async def known_prices(
    vendor: Callable[[], AbstractAsyncContextManager[Client]], machines: Collection[Rentable]
) -> PriceList:
    """Today's prices in these machines' regions; none if the vendor does not answer."""
    try:
        async with vendor() as client:
            return await prices_of(client, machines)
    except UnavailableError:
        return PriceList({})


async def cost_of_change(
    vendor: Callable[[], AbstractAsyncContextManager[Client]],
    before: Collection[Rentable],
    after: Collection[Rentable],
) -> Cost:
    """Monthly cost of the machines before and after a change, at today's prices."""
    prices = await known_prices(vendor, (*before, *after))
    return Cost(bill_of(before, prices), bill_of(after, prices))


async def list_price(vendor: Client, region: str, server_type: str) -> Decimal | None:
    """The price of a new machine, US dollars a month; ``None`` where the vendor does not say.

    Raises:
        UnavailableError: The vendor does not answer.
    """
    sold = await vendor.list_server_types(region=region)
    prices = (offer.price_monthly for offer in sold if offer.name == server_type)
    return next((Decimal(str(price)) for price in prices if price is not None), None)
