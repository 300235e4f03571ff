"""What hermes-node says of the releases on its machine, read."""

import pytest

from hermesops.model.fleet.slot import SlotsState


def test_a_machine_tells_which_wheels_it_needs() -> None:
    assert SlotsState.from_status({"releases": {"current": "a", "python": "3.13"}}).python == "3.13"


@pytest.mark.parametrize(
    ("busy", "says"),
    [
        ({"runs": 1, "connections": 1}, "1 run"),
        ({"runs": 2, "connections": 0}, "2 runs"),
        ({"runs": 0, "connections": 3}, ""),
        (None, ""),
    ],
)
def test_whoever_is_in_the_middle_of_a_run_is_busy(busy: dict[str, int] | None, says: str) -> None:
    assert SlotsState.from_status({"busy": busy, "releases": {"current": "a"}}).busy == says
