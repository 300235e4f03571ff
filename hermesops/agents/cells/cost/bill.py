"""Monthly cost of machines. An unknown price is reported, never counted as zero. Pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

from hermesops.base.narration import counted

NOTHING = Decimal(0)


class Rentable(Protocol):
    """A machine with a price: one that a row orders, or one that a state holds."""

    @property
    def region(self) -> str:
        """Region of the machine, as JustAVPS names it."""

    @property
    def server_type(self) -> str:
        """Size of the machine, as JustAVPS names it."""


@dataclass(frozen=True)
class PriceList:
    """Prices by region and server type, US dollars a month."""

    monthly: Mapping[tuple[str, str], Decimal]

    def price(self, machine: Rentable) -> Decimal | None:
        """A machine's price; ``None`` when it is not known."""
        return self.monthly.get((machine.region, machine.server_type))


@dataclass(frozen=True)
class Bill:
    """Monthly cost of a set of machines.

    Attributes:
        monthly: US dollars a month, of machines with a known price.
        unpriced: ``region/server type`` of each of unknown price.
    """

    monthly: Decimal = NOTHING
    machines: int = 0
    unpriced: tuple[str, ...] = field(default=())

    def __add__(self, other: "Bill") -> "Bill":
        """Add the cost, machines and unknown prices of two bills."""
        return Bill(self.monthly + other.monthly, self.machines + other.machines, (*self.unpriced, *other.unpriced))

    def __bool__(self) -> bool:
        """Whether the bill has at least one machine."""
        return bool(self.machines or self.unpriced)

    def __str__(self) -> str:
        """For people: ``$27.50 a month for 2 machines, 1 more of unknown price (hel1/odd)``."""
        words = f"${self.monthly:.2f} a month for {counted(self.machines, 'machine')}"
        if not self.unpriced:
            return words
        kinds = ", ".join(sorted(set(self.unpriced)))
        if not self.machines:
            return f"{counted(len(self.unpriced), 'machine')} of unknown price ({kinds})"
        return f"{words}, {len(self.unpriced)} more of unknown price ({kinds})"


@dataclass(frozen=True)
class Cost:
    """Monthly cost of some machines, before and after a change."""

    before: Bill
    after: Bill


def bill_of(machines: Iterable[Rentable], prices: PriceList) -> Bill:
    """Add up the monthly cost of machines."""
    total, known, unpriced = NOTHING, 0, []
    for machine in machines:
        price = prices.price(machine)
        if price is None:
            unpriced.append(f"{machine.region}/{machine.server_type}")
        else:
            total, known = total + price, known + 1
    return Bill(total, known, tuple(unpriced))
