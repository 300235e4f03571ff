"""More machines are rented only while the budget allows all of them."""

from decimal import Decimal

import pytest

from hermesops.agents.cells.changes.guard import refuse_over_budget
from hermesops.agents.cells.cost.bill import Bill
from hermesops.errors import RefusedError

NEW = [("starter", "hel1"), ("starter", "hel1"), ("pro", "nbg1")]


def test_what_costs_no_more_than_the_budget_is_allowed() -> None:
    refuse_over_budget(NEW, Bill(Decimal(50), 5), Decimal(50))


def test_what_costs_more_or_has_no_price_is_refused_by_kind() -> None:
    with pytest.raises(
        RefusedError, match=r"2 more starter in hel1, 1 more pro in nbg1 would exceed .* \$50.00 a month"
    ):
        refuse_over_budget(NEW, Bill(Decimal("50.01"), 5), Decimal(50))
    with pytest.raises(RefusedError, match="unknown price"):
        refuse_over_budget(NEW, Bill(Decimal(1), 4, ("nbg1/pro",)), Decimal(50))
