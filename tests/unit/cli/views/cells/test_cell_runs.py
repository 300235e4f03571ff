"""What became of several cells: every change with its cell, who failed, and one exit code."""

import json

import pytest

from hermesops.agents.cells.bulk import CellRun
from hermesops.cli import console
from hermesops.cli.views.cells.cells import report
from hermesops.errors import UnavailableError
from hermesops.model.ids import CellName
from hermesops.model.stack import Change, ChangeKind

MADE = Change(ChangeKind.CREATE, "urn::m1", "justavps:index:Machine", "m1", properties=("region", "image_id"))
SAME = Change(ChangeKind.SAME, "urn::m2", "justavps:index:Machine", "m2")
AWAY = UnavailableError("no answer", hint="repeat")
ONE = CellRun(CellName("cell1"), (MADE, SAME))
TWO = CellRun(CellName("cell2"), error=AWAY)
IDLE = CellRun(CellName("cell3"), (SAME,))


@pytest.fixture
def as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(console._mode, "json", True)


@pytest.mark.usefixtures("as_json")
def test_json_has_every_change_with_its_cell_and_the_end_of_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("stack-up", [ONE, TWO, IDLE]) == 6
    captured = capsys.readouterr()
    assert json.loads(captured.out) == {
        "kind": "stack-up",
        "version": 1,
        "changes": [
            {
                "cell": "cell1",
                "kind": "create",
                "type": "justavps:index:Machine",
                "name": "m1",
                "id": None,
                "urn": "urn::m1",
                "properties": ["region", "image_id"],
            }
        ],
        "cells": [
            {"cell": "cell1", "ended": "done", "counts": {"create": 1}, "operation_id": None, "error": None},
            {
                "cell": "cell2",
                "ended": "failed",
                "counts": {},
                "operation_id": None,
                "error": {"error": "UnavailableError", "message": "no answer", "hint": "repeat", "exit_code": 4},
            },
            {"cell": "cell3", "ended": "done", "counts": {}, "operation_id": None, "error": None},
        ],
    }
    assert "error: 1 of 3 cells failed: cell2: no answer" in captured.err


def test_people_read_a_line_for_each_change_or_for_each_cell_without(capsys: pytest.CaptureFixture[str]) -> None:
    assert report("stack-up", [ONE, IDLE]) == 0
    assert "cell1  create  justavps:index:Machine  m1    region, image_id" in capsys.readouterr().out
    left = CellRun(CellName("cell2"), operation_id="op")
    report("stack-up", [IDLE, left])
    assert capsys.readouterr().out == "cell3: no changes\ncell2: left to the workers: operation op\n"


def test_changes_that_remain_are_an_exit_code_when_asked_and_a_failure_comes_first() -> None:
    assert report("stack-preview", [ONE, IDLE], remaining=True) == 7
    assert report("stack-preview", [IDLE], remaining=True) == 0
    assert report("stack-preview", [ONE], remaining=False) == 0
    assert report("stack-preview", [ONE, TWO], remaining=True) == 6
    assert report("stack-preview", [TWO, TWO], remaining=True) == 4


def test_one_cells_failure_is_the_commands_own() -> None:
    with pytest.raises(UnavailableError, match="no answer") as raised:
        report("stack-up", [TWO])
    assert raised.value is AWAY
