from decimal import Decimal

from hermesops.cells.changes.guard import Overrides
from hermesops.cells.workflow import UpRequest
from hermesops.model.ids import CellName, MachineName

CELL = CellName("cell1")


def test_whoever_continues_an_up_knows_what_was_asked() -> None:
    requests = [
        UpRequest(CELL),
        UpRequest(CELL, frozenset({MachineName("a")}), Overrides(frozenset({MachineName("b")}), 0.6, Decimal("12.50"))),
        UpRequest(CELL, saved="a preview", approval="an approval"),
    ]
    for request in requests:
        assert UpRequest.from_intent(request.to_intent()) == request


def test_a_row_of_an_older_version_means_what_it_meant() -> None:
    assert UpRequest.from_intent({"cell": "cell1", "saved": "a preview"}) == UpRequest(CELL, saved="a preview")
    assert "approval" not in UpRequest(CELL).to_intent(), "equal wishes have equal rows, whoever wrote them"
