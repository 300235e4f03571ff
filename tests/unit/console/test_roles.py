"""The role that each request of the console needs."""

from dataclasses import fields

import pytest

from hermesops.console.actions.action import About, Action, RepeatableWork
from hermesops.console.actions.served import find_served, served_actions
from hermesops.console.actions.table import ACTIONS
from hermesops.console.operators.roles import role_needed
from hermesops.model.access.console_operator import Groups, Role
from hermesops.store.operations.intent import Intent
from hermesops.store.operations.kinds.agents import (
    ConfigureIntent,
    ProvisionIntent,
    RebootIntent,
    RelocateIntent,
    ResizeIntent,
    RestartIntent,
    ResumeIntent,
    ScheduleTerminationIntent,
    SuspendIntent,
    TerminateIntent,
)
from hermesops.store.operations.kinds.copies import BackupIntent, RestoreIntent
from hermesops.store.operations.kinds.fleet import JobRunIntent, PoolFillIntent, StackUpIntent

SERVED = {f"{action.about}-{action.name}": action for action in served_actions()}


@pytest.mark.parametrize("action", SERVED.values(), ids=SERVED)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_change_needs_its_role_for_its_preview_too(action: Action, method: str) -> None:
    of = "" if action.about is About.FLEET else f"{action.about}/x/"
    assert role_needed(method, f"/console/{of}change/{action.name}") is action.role
    assert action.role is not None
    assert action.role > Role.VIEWER


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/console/"),
        ("POST", "/console/instances/x"),
        ("DELETE", "/console/operations"),
        ("POST", "/console/instances/x/change/erase"),
        ("GET", "/console/instances/x/change/erase"),
        ("POST", "/console/instances/x/change/restart/more"),
        ("GET", "/console/instances/x/change/restart/more"),
        ("GET", "/console/rollouts/x/change/restart"),
        ("POST", "/console/instances/x/change/pause"),
        ("POST", "/console/change/pause"),
        ("POST", "/console/rollouts/x/change/start-rollout"),
        ("POST", "/console/rollouts/x/y/change/pause"),
        ("POST", "/console/change/up-saved"),
        ("POST", "/console/instances/x/change/configure"),
        ("GET", "/console/runbooks/x/change/run"),
        ("POST", "/console/drills/x/change/run"),
        ("POST", "/console/bulk/configure"),
        ("GET", "/console/bulk/erase"),
        ("POST", "/console/bulk/restart/more"),
        ("POST", "/console/bulk"),
        ("POST", "/console/links/other"),
    ],
)
def test_whatever_changes_something_and_is_no_known_action_needs_the_highest_role(method: str, path: str) -> None:
    assert role_needed(method, path) is Role.ADMIN


@pytest.mark.parametrize("action", SERVED.values(), ids=SERVED)
def test_an_action_that_workers_carry_out_is_begun_once_for_its_reason(action: Action) -> None:
    assert isinstance(action.work, RepeatableWork)


@pytest.mark.parametrize("name", ["restart", "back-up", "terminate"])
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_a_bulk_action_needs_the_role_of_its_action(name: str, method: str) -> None:
    assert role_needed(method, f"/console/bulk/{name}") is SERVED[f"instances-{name}"].role


def test_whoever_reads_pages_keeps_links_to_them() -> None:
    assert {role_needed("POST", f"/console/links{path}") for path in ("", "/remove")} == {Role.VIEWER}


@pytest.mark.parametrize(
    "intent",
    [
        *(RestartIntent, RebootIntent, SuspendIntent, ResumeIntent, ResizeIntent, RelocateIntent, RestoreIntent),
        *(ConfigureIntent, ScheduleTerminationIntent, TerminateIntent, ProvisionIntent, BackupIntent, StackUpIntent),
        *(PoolFillIntent, JobRunIntent),
    ],
)
def test_an_operation_that_workers_open_keeps_the_reason_that_names_its_request(intent: type[Intent]) -> None:
    assert "reason" in {field.name for field in fields(intent)}


def test_no_value_of_the_served_console_passes_over_alerts_losses_or_the_days_of_grace() -> None:
    assert {key: [field.name for field in action.fields] for key, action in SERVED.items() if action.fields} == {
        "fleet-start-rollout": [
            *("release", "where", "everybody", "stages", "soak", "settle", "max_unavailable", "vitals", "drill"),
            *("on_halt", "action"),
        ],
        "fleet-rotate-tokens": ["where", "everybody", "stages", "soak", "settle"],
        "fleet-silence": ["where", "instance", "length"],
        "alerts-acknowledge": ["instance", "length"],
        "machines-adopt": ["id"],
        "machines-remove-orphan": ["id"],
        "instances-provision": ["plan"],
        "rollouts-promote": ["full"],
        "fleet-freeze": ["until"],
        "instances-restore": ["snapshot", "onto_new_machine"],
        "instances-move": ["cell", "region"],
        "instances-resize": ["plan", "onto_new_machine"],
    }
    assert {key: action.role for key, action in SERVED.items() if action.destroys} == {
        "instances-restore": Role.ADMIN,
        "instances-terminate": Role.ADMIN,
        "rollouts-roll-back": Role.OPERATOR,
        "operations-abandon": Role.OPERATOR,
        "machines-remove-orphan": Role.ADMIN,
        "cells-drain-pool": Role.ADMIN,
        "jobs-run": Role.ADMIN,
    }


def test_actions_whose_values_or_work_workers_do_not_take_are_left_to_commands() -> None:
    assert all((action.role is None) == bool(action.left_because) for action in ACTIONS)
    assert {f"{action.about}-{action.name}" for action in ACTIONS} - SERVED.keys() == {
        "instances-configure",
        "fleet-up-saved",
        "fleet-build-release",
        "fleet-build-image",
        "fleet-rotate-registry-key",
        "releases-revoke",
        "silences-lift",
        "callers-revoke",
        "runbooks-run",
        "drills-run",
    }
    assert find_served("instances", "configure") is None


def test_the_highest_group_counts() -> None:
    groups = Groups({"v"}, {"o", "x"}, {"a"})
    assert groups.role_of(["v", "a", "x"]) is Role.ADMIN
    assert groups.role_of(["v", "x"]) is Role.OPERATOR
    assert groups.role_of(["v"]) is Role.VIEWER
    assert groups.role_of(["", "O", "other"]) is None
