from decimal import Decimal

from hermesops.cells.changes.guard import Named
from hermesops.cells.workflow import UpWish
from hermesops.model.ids import CellName, MachineName

CELL = CellName("cell1")


def test_whoever_continues_an_up_knows_what_was_asked() -> None:
    wishes = [
        UpWish(CELL),
        UpWish(CELL, frozenset({MachineName("a")}), Named(frozenset({MachineName("b")}), 0.6, Decimal("12.50"))),
        UpWish(CELL, saved="a preview", approval="an approval"),
    ]
    for wish in wishes:
        assert UpWish.from_intent(wish.to_intent()) == wish
