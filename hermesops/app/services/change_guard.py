"""Checks every run of a cell's stack beforehand: against the environment's limits, or against a signed preview."""

import hashlib
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path

import hermesops
from hermesops.app.services.operators import signers_of
from hermesops.cells.bill import PriceList, Rentable, bill_of
from hermesops.cells.changes.guard import NO_OVERRIDES, Cost, Limits, Overrides, judge, refuse_over_budget
from hermesops.cells.changes.preview import FILE, ChangePreview, SavedPreview, refuse_moved, refuse_stale, saved
from hermesops.cells.prices import prices_of
from hermesops.errors import UnavailableError
from hermesops.justavps import Client
from hermesops.model.cell import CellMachine
from hermesops.model.ids import CellName, MachineName
from hermesops.registry import Registry
from hermesops.settings import Environment


@dataclass(frozen=True)
class Guards:
    """Checks runs.

    Attributes:
        engine_name: Name of the engine that makes previews; the engine itself takes long to load.
    """

    env: Environment
    registry: Registry
    vendor: Callable[[], AbstractAsyncContextManager[Client]]
    engine_name: Callable[[], str]

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
        refuse_over_budget(rented, bill_of(machines, await self._prices(machines)), budget)

    async def refuse_moved(self, change_preview: ChangePreview, preview: SavedPreview) -> None:
        """Refuse a run that differs from the signed preview."""
        refuse_moved(preview, change_preview, self.versions())

    async def cost(self, *change_previews: ChangePreview) -> Cost:
        """What all machines of the environment cost a month, before and after runs of some cells."""
        others = self._ordered(but={change_preview.cell for change_preview in change_previews})
        held = [machine for change_preview in change_previews for machine in change_preview.held]
        wanted = [machine for change_preview in change_previews for machine in change_preview.wanted.machines]
        prices = await self._prices((*others, *held, *wanted))
        rest = bill_of(others, prices)
        return Cost(rest + bill_of(held, prices), rest + bill_of(wanted, prices))

    async def _prices(self, machines: Collection[Rentable]) -> PriceList:
        """Today's prices in these machines' regions; none if the vendor does not answer."""
        try:
            async with self.vendor() as client:
                return await prices_of(client, machines)
        except UnavailableError:
            return PriceList({})

    def sign(self, change_preview: ChangePreview, cost: Cost) -> str:
        """The file of a saved preview, signed by the operator.

        Raises:
            RefusedError: The operator's key does not sign.
        """
        preview = saved(
            change_preview,
            environment=self.env.name,
            versions=self.versions(),
            cost=str(cost.after),
            now=datetime.now(UTC),
        )
        return signers_of(self.env).sign_file(FILE, preview)

    def open(self, text: str) -> tuple[SavedPreview, str]:
        """Read a saved preview that is still valid; its content and the signer.

        Raises:
            UsageError: It is none.
            RefusedError: Its signature does not hold, or it is too old or another environment's.
        """
        preview, signer = signers_of(self.env).verify_file(FILE, text)
        life = timedelta(hours=self.env.settings.preview_life_h)
        refuse_stale(preview, environment=self.env.name, now=datetime.now(UTC), life=life)
        return preview, signer

    def versions(self) -> Mapping[str, str]:
        """Versions of everything that makes previews."""
        return {"hermesops": hermesops.__version__, "engine": self.engine_name(), "program": _program_digest()}

    def _ordered(self, *, but: Collection[CellName] = ()) -> list[Rentable]:
        """All ordered machines but those of some cells."""
        return [
            *(one for one in self.registry.fleet.list_ordered() if one.wanted and one.instance.cell not in but),
            *(one for one in self.registry.unassigned.list() if one.wanted and one.cell not in but),
        ]


@cache
def _program_digest() -> str:
    """Of the code that says what a cell is and what a change of a machine means."""
    package = Path(hermesops.__file__).parent
    files = sorted(file for folder in ("stacks", "provider") for file in (package / folder).glob("*.py"))
    digest = hashlib.sha256()
    for file in files:
        digest.update(file.name.encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]
