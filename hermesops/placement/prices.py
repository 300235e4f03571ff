"""Asks the vendor what machines cost, once for each region."""

from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Protocol

from hermesops.errors import UnavailableError
from hermesops.placement.price import PriceList


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


class Prices:
    """What machines cost, as the vendor says today.

    Args:
        vendor: JustAVPS.
    """

    def __init__(self, vendor: Vendor) -> None:
        self._vendor = vendor
        self._known: dict[str, dict[tuple[str, str], Decimal]] = {}

    async def of(self, regions: Iterable[str]) -> PriceList:
        """The prices of some regions. One about which the vendor says nothing has none; nothing is guessed."""
        monthly: dict[tuple[str, str], Decimal] = {}
        for region in sorted(set(regions)):
            monthly |= await self._region(region)
        return PriceList(monthly)

    async def _region(self, region: str) -> dict[tuple[str, str], Decimal]:
        if region not in self._known:
            try:
                sold = await self._vendor.list_server_types(region=region)
            except UnavailableError:
                return {}  # asked again next time
            # Through text: a float of 17.1 is not quite $17.10.
            self._known[region] = {
                (region, one.name): Decimal(str(one.price_monthly)) for one in sold if one.price_monthly is not None
            }
        return self._known[region]
