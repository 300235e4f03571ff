"""What a slot lays over the machine's base configuration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.release.slots.disk import DiskSlots
from hermesops.programs.node.release.slots.slot import base_of, record_of_lock, unit_of
from hermesops.wire.documents.lock import Managed
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import Layout
from tests.support.fakes.machines.node_system import FakeSystem
from tests.unit.wire.documents.test_lock import LOCK

BASE = {
    "unit": "hermes-gateway.service",
    "user": "hermes",
    "home": "/var/lib/hermes",
    "port": 8642,
    "routes": [{"name": "claude-haiku", "context_tokens": 200000}],
    "adapters": [],
    "config": {"agent": {"max_turns": 9}, "gateway": {"systemd_watchdog_seconds": 30}},
    "environment": {"TZ": "UTC", "TERMINAL_ENV": "local"},
    "user_config": {"_config_version": 33, "command_allowlist": ["execute_code"]},
}
OLDER = replace(LOCK, config_schema=33, managed=Managed())
NEWER = replace(
    LOCK,
    config_schema=37,
    managed=Managed({"gateway": {"systemd_watchdog_seconds": 0}}, {"TZ": "Europe/Berlin"}),
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine with two releases, of which the older one runs."""
    layout = Layout(tmp_path)
    layout.base.parent.mkdir(parents=True)
    layout.base.write_text(json.dumps(BASE))
    for lock in (OLDER, NEWER):
        slot = layout.releases / lock.id
        slot.mkdir(parents=True)
        (slot / "release.json").write_bytes(record_of_lock(lock, "3.11"))
    layout.current.symlink_to(f"releases/{OLDER.id}")
    return Machine(layout, system=FakeSystem(), slots=DiskSlots(layout))


def test_a_release_without_settings_lays_nothing_over(machine: Machine) -> None:
    base = base_of(machine)
    assert (base.config, base.environment, base.user_config) == (
        BASE["config"],
        BASE["environment"],
        BASE["user_config"],
    )


def test_a_slot_without_its_unit_is_refused(machine: Machine) -> None:
    with pytest.raises(NotReadyError, match=f"the slot of release {OLDER.id} has no hermes-gateway"):
        unit_of(machine, OLDER.id)


def test_a_release_lays_its_own_over_key_by_key(machine: Machine) -> None:
    base = base_of(machine, NEWER.id)
    assert base.config == {"agent": {"max_turns": 9}, "gateway": {"systemd_watchdog_seconds": 0}}
    assert base.environment == {"TZ": "Europe/Berlin", "TERMINAL_ENV": "local"}


def test_a_newcomers_first_file_is_of_the_agent_that_runs(machine: Machine) -> None:
    assert base_of(machine, NEWER.id).user_config == {"_config_version": 37, "command_allowlist": ["execute_code"]}
