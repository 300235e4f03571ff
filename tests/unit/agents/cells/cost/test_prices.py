"""Prices come from the vendor, once a region; a vendor that is silent makes them unknown."""

from dataclasses import dataclass, field
from decimal import Decimal

from hermesops.agents.cells.cost.prices import prices_of
from hermesops.errors import UnavailableError
from hermesops.model.fleet.cell import CellMachine
from hermesops.model.ids import MachineName
from hermesops.vendor.justavps import Client, ServerType


@dataclass
class Vendor(Client):
    asked: list[str] = field(default_factory=list)
    silent: bool = False

    async def list_server_types(self, *, region: str, provider: str = "cloud") -> list[ServerType]:
        assert provider == "cloud"
        self.asked.append(region)
        if self.silent:
            raise UnavailableError("away")
        return [ServerType(name="starter", price_monthly=17.1), ServerType(name="odd")]


async def test_a_region_is_asked_once_and_cents_stay_cents() -> None:
    vendor = Vendor()
    known = await prices_of(vendor, [machine("hel1"), machine("hel1"), machine("nbg1")])
    assert vendor.asked == ["hel1", "nbg1"]
    assert known.monthly == {("hel1", "starter"): Decimal("17.1"), ("nbg1", "starter"): Decimal("17.1")}


async def test_a_silent_vendor_is_asked_again() -> None:
    vendor = Vendor(silent=True)
    assert (await prices_of(vendor, [machine("hel1")])).monthly == {}
    vendor.silent = False
    assert (await prices_of(vendor, [machine("hel1")])).monthly


def machine(region: str) -> CellMachine:
    return CellMachine(MachineName("m"), "starter", region, None, None)
