"""The role that each request of the console needs."""

import pytest

from hermesops.agents.operator_requests.actions import ACTIONS
from hermesops.console.actions.action import About
from hermesops.console.actions.table import about
from hermesops.console.operators.roles import role_needed
from hermesops.model.access.console_operator import Groups, Role


@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_change_needs_its_role_for_its_preview_too(name: str, method: str) -> None:
    assert role_needed(method, f"/console/instances/x/change/{name}") is ACTIONS[name].role
    assert ACTIONS[name].role > Role.VIEWER


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/console/"),
        ("POST", "/console/instances/x"),
        ("DELETE", "/console/operations"),
        ("POST", "/console/instances/x/change/erase"),
        ("GET", "/console/instances/x/change/erase"),
        ("POST", "/console/instances/x/change/restart/more"),
    ],
)
def test_whatever_changes_something_and_is_no_known_action_needs_the_highest_role(method: str, path: str) -> None:
    assert role_needed(method, path) is Role.ADMIN


def test_every_action_that_workers_carry_out_has_a_page() -> None:
    assert about(About.INSTANCE).keys() >= ACTIONS.keys()


def test_the_highest_group_counts() -> None:
    groups = Groups({"v"}, {"o", "x"}, {"a"})
    assert groups.role_of(["v", "a", "x"]) is Role.ADMIN
    assert groups.role_of(["v", "x"]) is Role.OPERATOR
    assert groups.role_of(["v"]) is Role.VIEWER
    assert groups.role_of(["", "O", "other"]) is None
