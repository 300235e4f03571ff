"""Checks every run of a cell's stack beforehand, against the environment's limits."""

from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from hermesops.agents.cells.changes.guard import NO_OVERRIDES, Limits, Overrides, judge, refuse_over_budget
from hermesops.agents.cells.changes.preview import ChangePreview
from hermesops.agents.cells.cost.bill import Cost, Rentable, bill_of
from hermesops.agents.cells.cost.prices import known_prices
from hermesops.model.fleet.cell import CellMachine
from hermesops.model.ids import CellName, MachineName
from hermesops.settings.environment import Environment
from hermesops.store.registry import Registry
from hermesops.vendor.justavps import Client


@dataclass(frozen=True)
class Guards:
    """Refuses runs beyond the environment's limits: share of changed machines, and monthly budget."""

    env: Environment
    registry: Registry
    vendor: Callable[[], AbstractAsyncContextManager[Client]]

    @property
    def _limits(self) -> Limits:
        return Limits(self.env.settings.changed_share, self.env.settings.monthly_budget)

    async def judge(
        self, change_preview: ChangePreview, named: Overrides = NO_OVERRIDES, *, began: bool = False
    ) -> None:
        """Refuse a run beyond the limits and overrides; see ``cells.changes.guard.judge``."""
        cost = await self.cost(change_preview) if self._limits.budget is not None else None
        judge(change_preview, limits=self._limits, named=named, cost=cost, began=began)

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        """Refuse more machines than the budget allows.

        Args:
            rented: Server type and region of each.

        Raises:
            RefusedError: It does not, or the price of one is not known.
        """
        budget = self._limits.budget
        if budget is None:
            return
        new = [CellMachine(MachineName(""), server_type, region, None, None) for server_type, region in rented]
        machines: list[Rentable] = [*self._ordered(), *new]
        refuse_over_budget(rented, bill_of(machines, await known_prices(self.vendor, machines)), budget)

    async def cost(self, *change_previews: ChangePreview) -> Cost:
        """Monthly cost of all machines of the environment, before and after runs of some cells."""
        others = self._ordered(but={change_preview.cell for change_preview in change_previews})
        before = [machine for change_preview in change_previews for machine in change_preview.in_state]
        after = [machine for change_preview in change_previews for machine in change_preview.ordered.machines]
        prices = await known_prices(self.vendor, (*others, *before, *after))
        rest = bill_of(others, prices)
        return Cost(rest + bill_of(before, prices), rest + bill_of(after, prices))

    def _ordered(self, *, but: Collection[CellName] = ()) -> list[Rentable]:
        """All ordered machines but those of some cells."""
        return [
            *(row for row in self.registry.fleet.list_ordered() if row.wanted and row.instance.cell not in but),
            *(row for row in self.registry.unassigned.list() if row.wanted and row.cell not in but),
        ]
