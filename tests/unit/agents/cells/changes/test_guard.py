"""What a guard lets through, and what it wants to hear named."""

from decimal import Decimal

import pytest

from hermesops.agents.cells.changes.guard import Limits, Overrides, judge
from hermesops.agents.cells.changes.preview import ChangePreview
from hermesops.agents.cells.cost.bill import Bill, Cost
from hermesops.errors import RefusedError, UsageError
from hermesops.model.fleet.cell import CellMachine, CellSpec
from hermesops.model.ids import CellName, ImageId, InstanceId, MachineName
from hermesops.model.stack import Change, ChangeKind, Preview, StackRef
from tests.support.suite.cases import each_case

CELL = CellName("cell1")
LIMITS = Limits(share=0.25)


def machine(number: int) -> CellMachine:
    return CellMachine(
        MachineName(f"m{number}"), "starter", "hel1", ImageId("i"), InstanceId(f"00000000-0000-4000-8000-{number:012}")
    )


def change_preview(
    *changes: tuple[ChangeKind, int],
    held: int = 8,
    machines_to_delete: tuple[int, ...] = (),
    resized: tuple[int, ...] = (),
) -> ChangePreview:
    machines = tuple(machine(n) for n in range(held))
    changes_made = tuple(Change(kind, f"urn:m{n}", "justavps:index:Machine", f"m{n}") for kind, n in changes)
    return ChangePreview(
        CELL,
        Preview(StackRef("fleet", CELL), changes_made),
        CellSpec(CELL, machines),
        machines,
        frozenset(MachineName(f"m{n}") for n in machines_to_delete),
        "rows",
        "state",
        resized=frozenset(MachineName(f"m{n}") for n in resized),
    )


def cost(before: str, after: str, *unpriced: str) -> Cost:
    return Cost(Bill(Decimal(before), 1), Bill(Decimal(after), 1, unpriced))


@pytest.mark.parametrize("kind", [ChangeKind.DELETE, ChangeKind.REPLACE])
def test_an_instances_machine_ends_only_when_it_is_named(kind: ChangeKind) -> None:
    preview = change_preview((kind, 3))
    with pytest.raises(RefusedError, match="m3 of instance") as refused:
        judge(preview, limits=LIMITS, named=Overrides(), cost=None)
    assert "--destroy m3" in str(refused.value.hint)
    judge(preview, limits=LIMITS, named=Overrides(frozenset({MachineName("m3")})), cost=None)


def test_naming_one_machine_does_not_name_another() -> None:
    preview = change_preview((ChangeKind.DELETE, 3), (ChangeKind.DELETE, 4))
    with pytest.raises(RefusedError, match="m4") as refused:
        judge(preview, limits=LIMITS, named=Overrides(frozenset({MachineName("m3")})), cost=None)
    assert "m3" not in refused.value.message


def test_what_a_recorded_operation_wants_gone_is_named_by_its_row() -> None:
    judge(change_preview((ChangeKind.DELETE, 3), machines_to_delete=(3,)), limits=LIMITS, named=Overrides(), cost=None)


def test_users_who_are_resized_at_the_same_time_are_not_in_each_others_way() -> None:
    both = (ChangeKind.UPDATE, 0), (ChangeKind.UPDATE, 1)
    judge(change_preview(*both, held=2, resized=(0, 1)), limits=LIMITS, named=Overrides(), cost=None)
    with pytest.raises(RefusedError, match="2 of 3"):
        judge(
            change_preview(*both, (ChangeKind.UPDATE, 2), held=3, resized=(0,)),
            limits=LIMITS,
            named=Overrides(),
            cost=None,
        )


def test_who_is_resized_is_not_named_for_destruction() -> None:
    with pytest.raises(RefusedError, match="m3 of instance"):
        judge(change_preview((ChangeKind.REPLACE, 3), resized=(3,)), limits=LIMITS, named=Overrides(), cost=None)


def test_a_named_machine_that_would_live_on_is_a_mistake() -> None:
    with pytest.raises(UsageError, match="m5"):
        judge(
            change_preview((ChangeKind.UPDATE, 5)),
            limits=LIMITS,
            named=Overrides(frozenset({MachineName("m5")})),
            cost=None,
        )


def test_a_run_that_was_cut_short_may_have_done_what_it_names() -> None:
    """Killed after the destruction it was given leave for, the same command goes on with the rest."""
    done = Overrides(frozenset({MachineName("m5")}))
    judge(change_preview(), limits=LIMITS, named=done, cost=None, began=True)
    with pytest.raises(RefusedError, match="m4"):
        judge(change_preview((ChangeKind.DELETE, 4)), limits=LIMITS, named=done, cost=None, began=True)


@each_case(("touched", "held", "share", "is_allowed"), [
    (1, 1, 0.01, True),  # one machine always may be
    (2, 8, 0.25, True),
    (3, 8, 0.25, False),
    (8, 8, 1.0, True),
    (0, 0, 0.25, True),
])  # fmt: skip
def test_more_than_the_share_is_refused(touched: int, held: int, share: float, *, is_allowed: bool) -> None:
    preview = change_preview(*((ChangeKind.UPDATE, n) for n in range(touched)), held=held)
    if is_allowed:
        judge(preview, limits=Limits(share), named=Overrides(), cost=None)
        return
    with pytest.raises(RefusedError, match=f"{touched} of {held}") as refused:
        judge(preview, limits=Limits(share), named=Overrides(), cost=None)
    percent = int(str(refused.value.hint).partition("--share ")[2].partition("%")[0])
    judge(preview, limits=Limits(share), named=Overrides(share=percent / 100), cost=None)


def test_new_machines_touch_nobody() -> None:
    judge(change_preview(*((ChangeKind.CREATE, n) for n in range(8, 48))), limits=LIMITS, named=Overrides(), cost=None)


def test_a_dearer_run_above_the_budget_is_refused_until_the_sum_is_named() -> None:
    limits = Limits(1.0, Decimal(100))
    with pytest.raises(RefusedError, match=r"\$120\.00") as refused:
        judge(change_preview(), limits=limits, named=Overrides(), cost=cost("90", "120"))
    assert "--budget 120.00" in str(refused.value.hint)
    judge(change_preview(), limits=limits, named=Overrides(budget=Decimal("120.00")), cost=cost("90", "120"))


def test_a_run_that_saves_is_never_held_up() -> None:
    judge(change_preview(), limits=Limits(1.0, Decimal(100)), named=Overrides(), cost=cost("500", "480"))


def test_an_unknown_price_counts_as_too_much() -> None:
    with pytest.raises(RefusedError, match="is unknown"):
        judge(change_preview(), limits=Limits(1.0, Decimal(100)), named=Overrides(), cost=cost("90", "90", "hel1/odd"))


def test_everything_is_said_at_once() -> None:
    preview = change_preview(*((ChangeKind.UPDATE, n) for n in range(7)), (ChangeKind.DELETE, 7))
    with pytest.raises(RefusedError, match=r"m7 .* destroyed; 8 of 8 machines .* the budget is") as refused:
        judge(preview, limits=Limits(0.1, Decimal(1)), named=Overrides(), cost=cost("1", "9"))
    for option in ("--destroy m7", "--share 100%", "--budget 9.00"):
        assert option in str(refused.value.hint)
