"""How a request changes an instance's policy, and which requests are refused."""

from datetime import time
from pathlib import Path

import pytest

from hermesops.agents.instances.settings.policies import InstancePolicies, PolicyChange
from hermesops.errors import UsageError
from hermesops.model.fleet.instance import InstancePolicy, QuietHours
from tests.support.real.stores.registries import placed, registry_at

QUIET = QuietHours(time(22), time(7), "Europe/Berlin")


def test_first_and_last_exclude_each_other() -> None:
    with pytest.raises(UsageError, match="both opted in and protected"):
        PolicyChange(opt_in=True, protect=True)
    first, last = InstancePolicy(opted_in=True), InstancePolicy(protected=True)
    assert PolicyChange(opt_in=True).applied_to(last) == first
    assert PolicyChange(protect=True).applied_to(first) == last
    assert PolicyChange(opt_in=False).applied_to(last) == last
    assert PolicyChange(protect=False).applied_to(first) == first


def test_an_empty_change_changes_nothing() -> None:
    policy = InstancePolicy(protected=True, quiet=QUIET)
    assert PolicyChange().applied_to(policy) == policy


def test_quiet_hours_as_typed() -> None:
    cases = {
        ("22-07", ""): QuietHours(time(22), time(7), "UTC"),
        ("22:30 - 7:05", ""): QuietHours(time(22, 30), time(7, 5), "UTC"),
        ("22-07", "Asia/Kolkata"): QuietHours(time(22), time(7), "Asia/Kolkata"),
    }
    for (hours, zone), quiet in cases.items():
        change = PolicyChange(quiet_hours=hours, timezone=zone)
        assert change.applied_to(InstancePolicy()).quiet == quiet, (hours, zone)


def test_a_time_zone_is_kept_or_replaced_alone_and_none_ends_the_hours() -> None:
    held = InstancePolicy(quiet=QUIET)
    assert PolicyChange(quiet_hours="1-2").applied_to(held).quiet == QuietHours(time(1), time(2), "Europe/Berlin")
    assert PolicyChange(timezone="UTC").applied_to(held).quiet == QuietHours(time(22), time(7), "UTC")
    assert PolicyChange(quiet_hours="none").applied_to(held).quiet is None


def test_unreadable_hours_are_refused() -> None:
    cases = {
        ("25-3", ""): "no time of day",
        ("22-7:99", ""): "no time of day",
        ("22", ""): "are no hours",
        ("7-7:00", ""): "or all of them",
        ("22-7", "Mars/Olympus"): "no time zone",
        ("22-7", "../../etc/passwd"): "no time zone",
        ("", "UTC"): "there are none",
    }
    for (hours, zone), words in cases.items():
        with pytest.raises(UsageError, match=words):
            PolicyChange(quiet_hours=hours, timezone=zone).applied_to(InstancePolicy())


def test_a_change_is_kept_and_audited_and_one_that_changes_nothing_is_not(tmp_path: Path) -> None:
    registry = registry_at(f"sqlite:///{tmp_path}/registry.db")
    ada, policies = placed(registry, "ada"), InstancePolicies(registry)
    kept = policies.change(ada, PolicyChange(protect=True), why="a demo")
    assert kept == registry.policies.get(ada.id) == InstancePolicy(protected=True)
    assert policies.change(ada, PolicyChange(), why="only looks") == kept
    assert policies.change(ada, PolicyChange(protect=True), why="again") == kept
    with pytest.raises(UsageError, match="now"):
        policies.change(ada, PolicyChange(opt_in=True, quiet_hours="now"))
    written = [logged.why for logged in registry.audit.list(subject=f"instance/{ada.id}") if "policy" in logged.action]
    assert written == ["a demo"]
