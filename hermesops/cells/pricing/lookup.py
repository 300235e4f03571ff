"""Asks the vendor what machines cost, once for each region."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Protocol

from hermesops.cells.pricing.bill import PriceList, Rentable
from hermesops.errors import UnavailableError


class Sold(Protocol):
    """A size that can be rented."""

    @property
    def name(self) -> str:
        """What it is called."""

    @property
    def price_monthly(self) -> float | None:
        """US dollars."""


class Vendor(Protocol):
    """Who sells machines."""

    async def list_server_types(self, *, region: str) -> Sequence[Sold]:
        """The sizes sold in a region."""


async def prices_of(vendor: Vendor, machines: Iterable[Rentable]) -> PriceList:
    """The prices where some machines are. A region about which the vendor says nothing has none; nothing is guessed."""
    monthly: dict[tuple[str, str], Decimal] = {}
    for region in sorted({machine.region for machine in machines}):
        try:
            sold = await vendor.list_server_types(region=region)
        except UnavailableError:
            continue
        # Through text: a float of 17.1 is not quite $17.10.
        monthly |= {
            (region, one.name): Decimal(str(one.price_monthly)) for one in sold if one.price_monthly is not None
        }
    return PriceList(monthly)
