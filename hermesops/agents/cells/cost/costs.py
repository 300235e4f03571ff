"""Monthly cost of an environment's machines: by the registry's rows, and by the vendor's account."""

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from decimal import Decimal

from hermesops.agents.cells.cost.bill import Bill, PriceList, Rentable, bill_of
from hermesops.agents.cells.cost.prices import prices_of
from hermesops.agents.drift.fleet_snapshot import Rented
from hermesops.errors import UnavailableError
from hermesops.model.fleet.unassigned_machine import MachineRole
from hermesops.model.ids import platform_machine_name
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client
from hermesops.vendor.justavps.wire import Machine


@dataclass(frozen=True)
class Costs:
    """A month of everything, US dollars.

    Attributes:
        actual: Estimate of the vendor; ``None`` when it gives none.
        rented: Machines that the vendor counts; the account may hold others than ours.
        platform: The machine of the platform's monitoring, which has no row.
        without_row: Every other machine that no row names: an orphan or unknown machine of ``fleet drift``.
        pools: Of the machines of warm pools, by cell and plan; ``cells`` and ``plans`` have them too.
        problem: Why prices, the vendor's estimate or machines without a row are missing; ``None`` where none is.
    """

    cells: Mapping[str, Bill]
    plans: Mapping[str, Bill]
    actual: Decimal | None
    rented: int
    platform: Bill = field(default_factory=Bill)
    without_row: Bill = field(default_factory=Bill)
    pools: Mapping[tuple[str, str], Bill] = field(default_factory=dict)
    problem: UnavailableError | None = None

    @property
    def unused(self) -> Bill:
        """Of all machines of warm pools: no agent is on them."""
        return sum(self.pools.values(), Bill())

    @property
    def total(self) -> Bill:
        """Of all machines, by rows, and of the platform's."""
        return sum(self.cells.values(), self.platform)

    @property
    def difference(self) -> Decimal | None:
        """How much more the vendor counts."""
        return None if self.actual is None else self.actual - self.total.monthly


async def costs_of(
    registry: Registry, vendor: Callable[[], AbstractAsyncContextManager[Client]], environment: str
) -> Costs:
    """Read the monthly cost of all machines from the registry, list prices and the vendor's account.

    Without an answer of the vendor, machines are counted from the registry's rows alone, and their prices are unknown.
    """
    cells: dict[str, list[Rentable]] = {cell.name: [] for cell in registry.cells.list()}
    plans: defaultdict[str, list[Rentable]] = defaultdict(list)
    rows = registry.fleet.list_ordered()
    for ordered in rows:
        if ordered.wanted:
            cells[ordered.instance.cell].append(ordered)
            plans[ordered.instance.plan.value].append(ordered)
    unassigned, pools = registry.unassigned.list(), defaultdict[tuple[str, str], list[Rentable]](list)
    for row in unassigned:
        if row.wanted and row.role is MachineRole.WARM:
            pools[row.cell, row.plan.value].append(row)
        if row.wanted:
            cells[row.cell].append(row)
            plans[row.plan.value].append(row)
    machines = [machine for these in cells.values() for machine in these]
    others: Sequence[Machine] = ()
    prices, usage, problem = PriceList({}), None, None
    try:
        async with vendor() as client:
            others = Rented(await client.list_machines()).without_row(rows, unassigned)
            unpriced = [machine for machine in others if machine.price_monthly is None]
            prices = await prices_of(client, [*machines, *unpriced])
            usage = await client.get_usage()
    except UnavailableError as error:
        problem = error
    own = platform_machine_name(environment)
    return Costs(
        cells={name: bill_of(these, prices) for name, these in cells.items()},
        plans={name: bill_of(these, prices) for name, these in sorted(plans.items())},
        pools={place: bill_of(these, prices) for place, these in sorted(pools.items())},
        actual=None if usage is None or usage.estimated_cost is None else Decimal(str(usage.estimated_cost)),
        rented=usage.total_machines if usage else 0,
        platform=_listed([machine for machine in others if machine.name == own], prices),
        without_row=_listed([machine for machine in others if machine.name != own], prices),
        problem=problem,
    )


def _listed(machines: Sequence[Machine], prices: PriceList) -> Bill:
    """The bill of machines: the vendor's price of each, or the list price of its size."""
    known = [Decimal(str(machine.price_monthly)) for machine in machines if machine.price_monthly is not None]
    rest = [machine for machine in machines if machine.price_monthly is None]
    return Bill(sum(known, Decimal(0)), len(known)) + bill_of(rest, prices)
