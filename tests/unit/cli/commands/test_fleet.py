"""The command line of repairs: each takes the options that are its own."""

import pytest

from hermesops.agents.drift.repairs import Repair
from hermesops.cli.commands import fleet
from hermesops.errors import UsageError


@pytest.mark.parametrize(
    ("kind", "option"),
    [("adopt", "forget"), ("remove-orphan", "contested"), ("accept-size", "machine_id"), ("accept-size", "forget")],
)
def test_an_option_of_another_repair_is_refused(kind: str, option: str) -> None:
    with pytest.raises(UsageError, match=f"fleet repair {kind} takes no --"):
        fleet.repair(kind, "ada", **{option: "m-1" if option == "machine_id" else True})  # type: ignore[arg-type]  # each is of its option's type


def test_an_unknown_repair_names_those_there_are() -> None:
    with pytest.raises(UsageError, match="one of adopt, remove-orphan, accept-size"):
        fleet.repair("resized", "ada")


def test_each_repair_has_its_options() -> None:
    assert set(fleet._REPAIR_OPTIONS) == {repair.value for repair in Repair}
