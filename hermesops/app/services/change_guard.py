"""What stands before every run of a cell: the environment's limits, or a preview that somebody signed."""

import hashlib
from collections import Counter
from collections.abc import Collection, Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import hermesops
from hermesops.cells.bill import PriceList, bill_of
from hermesops.cells.changes.guard import NO_OVERRIDES, Cost, Limits, Overrides, judge
from hermesops.cells.changes.preview import (
    FILE,
    SavedPreview,
    refuse_moved,
    refuse_stale,
    saved,
)
from hermesops.cells.prices import prices_of
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.cell import CellMachine
from hermesops.model.ids import MachineName

if TYPE_CHECKING:
    from hermesops.app.container import Container
    from hermesops.cells.bill import Rentable
    from hermesops.cells.changes.preview import ChangePreview
    from hermesops.identity.signatures import Signers
    from hermesops.model.ids import CellName


class Guards:
    """Makes what judges runs.

    Args:
        app: The environment.
    """

    def __init__(self, app: "Container") -> None:
        self._app = app
        settings = app.env.settings
        self._limits = Limits(settings.changed_share, settings.monthly_budget)

    async def judge(
        self, change_preview: "ChangePreview", named: Overrides = NO_OVERRIDES, *, began: bool = False
    ) -> None:
        """Let a run begin within the limits and what was named; see ``cells.changes.guard.judge``."""
        cost = await self.cost(change_preview) if self._limits.budget is not None else None
        judge(change_preview, limits=self._limits, named=named, cost=cost, began=began)

    async def refuse_unaffordable(self, *rented: tuple[str, str]) -> None:
        """Let more machines be wished for only while the budget allows all of them.

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
        bill = bill_of(machines, await self._prices(machines))
        if bill.unpriced or bill.monthly > budget:
            kinds = Counter(f"{server_type} in {region}" for server_type, region in rented)
            wished = ", ".join(f"{count} more {kind}" for kind, count in kinds.items())
            raise RefusedError(
                f"{wished}: that passes the budget of ${budget:.2f} a month: {bill}",
                hint="hermesops fleet cost shows what is spent; the setting monthly_budget is what may be",
            )

    async def refuse_moved(self, change_preview: "ChangePreview", preview: SavedPreview) -> None:
        """Let a run begin that is the one somebody signed."""
        refuse_moved(preview, change_preview, self.versions())

    async def cost(self, *change_previews: "ChangePreview") -> Cost:
        """What all machines of the environment cost a month, before and after runs of some cells."""
        others = self._ordered(but={change_preview.cell for change_preview in change_previews})
        held = [machine for change_preview in change_previews for machine in change_preview.held]
        wanted = [machine for change_preview in change_previews for machine in change_preview.wanted.machines]
        prices = await self._prices((*others, *held, *wanted))
        rest = bill_of(others, prices)
        return Cost(rest + bill_of(held, prices), rest + bill_of(wanted, prices))

    async def _prices(self, machines: "Collection[Rentable]") -> PriceList:
        """Today's prices where these machines are; none where the vendor is silent."""
        try:
            async with self._app.vendor() as client:
                return await prices_of(client, machines)
        except UnavailableError:
            return PriceList({})

    def sign(self, change_preview: "ChangePreview", cost: Cost) -> str:
        """The file of a saved preview, signed by the operator.

        Raises:
            RefusedError: The operator's key does not sign.
        """
        preview = saved(
            change_preview,
            environment=self._app.env.name,
            versions=self.versions(),
            cost=str(cost.after),
            now=datetime.now(UTC),
        )
        return self._signers.sign_file(FILE, preview)

    def open(self, text: str) -> tuple[SavedPreview, str]:
        """A saved preview that counts here and now, and who signed it.

        Raises:
            UsageError: It is none.
            RefusedError: Its signature does not hold, or it is too old or another environment's.
        """
        preview, signer = self._signers.verify_file(FILE, text)
        env = self._app.env
        refuse_stale(
            preview,
            environment=env.name,
            now=datetime.now(UTC),
            life=timedelta(hours=env.settings.preview_life_h),
        )
        return preview, signer

    def versions(self) -> Mapping[str, str]:
        """What makes previews here."""
        return {"hermesops": hermesops.__version__, "engine": self._app.engine.name, "program": _program_digest()}

    @property
    def _signers(self) -> "Signers":
        from hermesops.app.services.operators import signers_of

        return signers_of(self._app.env)

    def _ordered(self, *, but: "Collection[CellName]" = ()) -> "list[Rentable]":
        """The machines that rows order, those of some cells left out."""
        registry = self._app.registry
        return [
            *(one for one in registry.fleet.list_ordered() if one.wanted and one.instance.cell not in but),
            *(one for one in registry.spares.list() if one.wanted and one.cell not in but),
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
