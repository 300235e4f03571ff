"""What machines cost, and that nobody takes an unknown price for nothing."""

from decimal import Decimal

from hermesops.agents.cells.cost.bill import Bill, PriceList, bill_of
from hermesops.model.fleet.cell import CellMachine
from hermesops.model.ids import MachineName

PRICES = PriceList({("hel1", "starter"): Decimal(10), ("hel1", "basic"): Decimal("17.5")})


def machine(server_type: str, region: str = "hel1") -> CellMachine:
    return CellMachine(MachineName("m"), server_type, region, None, None)


def test_prices_are_summed_exactly() -> None:
    assert bill_of([machine("starter")] * 3 + [machine("basic")], PRICES) == Bill(Decimal("47.5"), 4)


def test_what_has_no_price_is_named() -> None:
    bill = bill_of([machine("starter"), machine("starter", "nbg1"), machine("odd")], PRICES)
    assert (bill.monthly, bill.machines, bill.unpriced) == (Decimal(10), 1, ("nbg1/starter", "hel1/odd"))
    assert str(bill) == "$10.00 a month for 1 machine, 2 more of unknown price (hel1/odd, nbg1/starter)"
    none = bill_of([machine("odd")], PRICES)
    assert str(none) == "1 machine of unknown price (hel1/odd)"


def test_bills_add_up() -> None:
    assert Bill(Decimal(1), 1, ("a/b",)) + Bill(Decimal(2), 2) == Bill(Decimal(3), 3, ("a/b",))
