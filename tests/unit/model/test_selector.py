"""Selections read as typed, and what cannot be selected by is refused."""

import pytest

from hermesops.errors import UsageError
from hermesops.model.fleet.selector import Selector

FIELDS = frozenset({"plan", "cell"})


def test_every_field_has_to_fit_and_a_field_named_twice_may_have_either_value() -> None:
    selector = Selector.parse("plan=heavy, cell=cell1,cell=cell2", fields=FIELDS)
    assert selector.takes({"plan": "heavy", "cell": "cell1"})
    assert selector.takes({"plan": "heavy", "cell": "cell2"})
    assert not selector.takes({"plan": "light", "cell": "cell2"})
    assert not selector.takes({"plan": "heavy", "cell": "cell3"})
    assert not selector.takes({"cell": "cell1"})


def test_no_condition_selects_everything() -> None:
    assert Selector.parse("", fields=FIELDS).takes({})


@pytest.mark.parametrize("text", ["plan", "plan=", "=heavy", "colour=red"])
def test_what_is_no_condition_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="cell, plan"):
        Selector.parse(text, fields=FIELDS)
