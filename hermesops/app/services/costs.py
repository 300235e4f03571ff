"""What an environment's machines cost: by the registry's rows, and by the vendor's account."""

from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from decimal import Decimal

from hermesops.cells.bill import Bill, Rentable, bill_of
from hermesops.cells.prices import prices_of
from hermesops.justavps import Client
from hermesops.registry import Registry


@dataclass(frozen=True)
class Costs:
    """A month of everything, US dollars.

    Attributes:
        actual: What the vendor estimates; ``None`` when it does not say.
        rented: Machines that the vendor counts; the account may hold others than ours.
    """

    cells: Mapping[str, Bill]
    plans: Mapping[str, Bill]
    actual: Decimal | None
    rented: int

    @property
    def total(self) -> Bill:
        """Of all machines, by rows."""
        return sum(self.cells.values(), Bill())

    @property
    def difference(self) -> Decimal | None:
        """How much more the vendor counts."""
        return None if self.actual is None else self.actual - self.total.monthly


async def costs_of(registry: Registry, vendor: Callable[[], AbstractAsyncContextManager[Client]]) -> Costs:
    """Ask registry and vendor.

    Raises:
        UnavailableError: The vendor does not answer.
    """
    cells: dict[str, list[Rentable]] = {cell.name: [] for cell in registry.cells.list()}
    plans: defaultdict[str, list[Rentable]] = defaultdict(list)
    for one in registry.fleet.list_ordered():
        if one.wanted:
            cells[one.instance.cell].append(one)
            plans[one.instance.plan.value].append(one)
    for row in registry.unassigned.list():
        if row.wanted:
            cells[row.cell].append(row)
            plans[row.plan.value].append(row)
    wanted = [machine for these in cells.values() for machine in these]
    async with vendor() as client:
        prices = await prices_of(client, wanted)
        usage = await client.get_usage()
    return Costs(
        cells={name: bill_of(these, prices) for name, these in cells.items()},
        plans={name: bill_of(these, prices) for name, these in sorted(plans.items())},
        actual=None if usage.estimated_cost is None else Decimal(str(usage.estimated_cost)),
        rented=usage.total_machines,
    )
