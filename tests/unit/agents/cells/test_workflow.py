from decimal import Decimal

from hermesops.agents.cells.changes.guard import Overrides
from hermesops.agents.cells.workflow import UpRequest
from hermesops.model.ids import CellName, MachineName

CELL = CellName("cell1")


def test_whoever_continues_an_up_knows_what_was_asked() -> None:
    requests = [
        UpRequest(CELL),
        UpRequest(CELL, frozenset({MachineName("a")}), Overrides(frozenset({MachineName("b")}), 0.6, Decimal("12.50"))),
        UpRequest(CELL, saved="a preview", approval="an approval"),
    ]
    for request in requests:
        assert UpRequest.of(request.to_intent()) == request
