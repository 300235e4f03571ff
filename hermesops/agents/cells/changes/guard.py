"""Guard of a cell's run: an operator has to allow destruction, cost or many changes by option. Pure."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import chain

from hermesops.agents.cells.changes.preview import DESTRUCTIVE, ChangePreview
from hermesops.agents.cells.cost.bill import Bill, Cost
from hermesops.errors import Hint, RefusedError, UsageError
from hermesops.model.ids import MachineName
from hermesops.model.stack import ChangeKind

_TOUCHING = DESTRUCTIVE | {ChangeKind.UPDATE}


@dataclass(frozen=True)
class Limits:
    """Limits of a run without an override.

    Attributes:
        share: Part of a cell's machines that one run may touch, 0 to 1; a single machine always may be.
        budget: US dollars a month that all machines of the environment may cost; ``None`` sets no limit.
    """

    share: float
    budget: Decimal | None = None


@dataclass(frozen=True)
class Overrides:
    """Permissions of an operator beyond the limits.

    Attributes:
        machines: Machines that may be deleted or replaced.
    """

    machines: frozenset[MachineName] = frozenset()
    share: float | None = None
    budget: Decimal | None = None


NO_OVERRIDES = Overrides()


def judge(
    change_preview: ChangePreview, *, limits: Limits, named: Overrides, cost: Cost | None, began: bool = False
) -> None:
    """Let a run begin, or say everything that forbids it.

    Args:
        cost: ``None`` when no budget is set.
        began: Whether a run with the same overrides was cut short: it may have made the allowed changes.

    Raises:
        UsageError: A machine was named that the run would not destroy.
        RefusedError: An override is missing; the message has the reasons, the hint the options.
    """
    machines = {machine.name for machine in (*change_preview.in_state, *change_preview.ordered.machines)}
    ending = {
        MachineName(c.name) for c in change_preview.preview.changes if c.kind in DESTRUCTIVE and c.name in machines
    }
    if not began and (unknown := sorted(named.machines - ending)):
        raise UsageError(
            f"{change_preview.cell}: no change would destroy {', '.join(unknown)}",
            hint=Hint(("stack", "preview", change_preview.cell), "shows the changes"),
            field="destroy",
        )
    refusals = [
        *_destruction(change_preview, sorted(ending - change_preview.machines_to_delete - named.machines)),
        *_share(change_preview, limits, named),
        *_budget(limits, named, cost),
    ]
    if refusals:
        words, options = zip(*refusals, strict=True)
        raise RefusedError(
            f"{change_preview.cell}: {'; '.join(words)}",
            hint=Hint(("stack", "up", change_preview.cell, *chain.from_iterable(options)), "allows exactly that"),
        )


def refuse_over_budget(rented: Sequence[tuple[str, str]], bill: Bill, budget: Decimal) -> None:
    """Let more machines be rented only while the budget allows all of them.

    Args:
        rented: Server type and region of each new one.
        bill: Of all machines, the new ones included.

    Raises:
        RefusedError: It does not, or the price of one is not known.
    """
    if not bill.unpriced and bill.monthly <= budget:
        return
    kinds = Counter(f"{server_type} in {region}" for server_type, region in rented)
    machines = ", ".join(f"{count} more {kind}" for kind, count in kinds.items())
    raise RefusedError(
        f"{machines} would exceed the budget of ${budget:.2f} a month: {bill}",
        hint=Hint(("fleet", "cost"), "shows the current cost; the setting monthly_budget limits it"),
    )


def _destruction(change_preview: ChangePreview, unnamed: list[MachineName]) -> list[tuple[str, tuple[str, str]]]:
    owners = {machine.name: machine.owner for machine in change_preview.ordered.machines}
    return [
        (
            f"the machine {name}{f' of instance {owners[name]}' if owners.get(name) else ''} would be destroyed",
            ("--destroy", name),
        )
        for name in unnamed
    ]


def _share(change_preview: ChangePreview, limits: Limits, named: Overrides) -> list[tuple[str, tuple[str, str]]]:
    in_state = {machine.name for machine in change_preview.in_state}
    meant = change_preview.machines_to_delete | named.machines  # each is allowed on its own
    touched = {
        c.name
        for c in change_preview.preview.changes
        if c.kind in _TOUCHING
        and c.name in in_state - meant
        and not (c.kind is ChangeKind.UPDATE and c.name in change_preview.resized)
    }
    allowed = max(limits.share, named.share or 0)
    if len(touched) <= max(1, int(allowed * len(in_state))):
        return []
    percent = -(-100 * len(touched) // len(in_state))
    return [
        (
            f"{len(touched)} of {len(in_state)} machines would change; the limit is {allowed:.0%}",
            ("--share", f"{percent}%"),
        )
    ]


def _budget(limits: Limits, named: Overrides, cost: Cost | None) -> list[tuple[str, tuple[str, str]]]:
    if limits.budget is None or cost is None:
        return []
    allowed = max(limits.budget, named.budget or limits.budget)
    # A run that saves money is never refused, whatever the rest costs.
    dearer = cost.after.monthly > cost.before.monthly or len(cost.after.unpriced) > len(cost.before.unpriced)
    if not dearer:
        return []
    if cost.after.unpriced and named.budget is None:
        return [(f"the cost is unknown: {cost.after}", ("--budget", f"{limits.budget:.2f}"))]
    if cost.after.monthly <= allowed:
        return []
    return [
        (
            f"all machines would cost ${cost.after.monthly:.2f} a month; the budget is ${allowed:.2f}",
            ("--budget", f"{cost.after.monthly:.2f}"),
        )
    ]
