"""Shapes of changes of stacks, and of copies of their states."""

from datetime import UTC, datetime

from hermesops.model.stack import Change, ChangeKind, StateVersion
from hermesops.views import stacks as stack_shapes

AT = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def test_a_change() -> None:
    assert stack_shapes.change(Change(ChangeKind.UPDATE, "urn", "t", "n", properties=("size",))) == {
        "kind": "update",
        "type": "t",
        "name": "n",
        "id": None,
        "urn": "urn",
        "properties": ["size"],
    }


def test_a_copy_of_a_state() -> None:
    assert stack_shapes.state_version(StateVersion("17", AT, "update succeeded", 3, current=True)) == {
        "version": "17",
        "at": "2026-01-02T03:04:05+00:00",
        "what": "update succeeded",
        "resources": 3,
        "damaged": False,
        "current": True,
        "note": "as now",
    }
    damaged = stack_shapes.state_version(StateVersion("17", AT, "", None, current=False))
    assert (damaged["note"], damaged["damaged"], damaged["what"]) == ("damaged", True, None)
