"""What an environment's machines cost, twice: by our rows, and by the vendor's account."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from hermesops.placement.price import Bill, bill_of
from hermesops.placement.prices import Prices

if TYPE_CHECKING:
    from hermesops.app.app import App
    from hermesops.model.cell import CellMachine


@dataclass(frozen=True)
class Costs:
    """A month of everything, US dollars.

    Attributes:
        cells: Of each cell's machines, by rows.
        plans: Of each plan's machines, by rows.
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


async def costs_of(app: "App") -> Costs:
    """Ask registry and vendor.

    Raises:
        UnavailableError: The vendor does not answer.
    """
    registry = app.registry
    machines = {cell.name: registry.cell_spec(cell.name).machines for cell in registry.list_cells()}
    plan_of = {instance.id: instance.plan.value for instance in registry.list_instances()}
    by_plan: defaultdict[str, list[CellMachine]] = defaultdict(list)
    for machine in (one for cell in machines.values() for one in cell):
        by_plan[plan_of.get(machine.owner, "nobody's") if machine.owner else "nobody's"].append(machine)
    async with app.vendor() as client:
        prices = await Prices(client).of({one.region for cell in machines.values() for one in cell})
        usage = await client.get_usage()
    return Costs(
        cells={str(name): bill_of(cell, prices) for name, cell in machines.items()},
        plans={name: bill_of(these, prices) for name, these in sorted(by_plan.items())},
        actual=None if usage.estimated_cost is None else Decimal(str(usage.estimated_cost)),
        rented=usage.total_machines,
    )
