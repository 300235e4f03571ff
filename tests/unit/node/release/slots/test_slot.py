"""What a slot lays over the machine's base configuration."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from hermesops.node.layout import Layout
from hermesops.node.machine import Machine
from hermesops.node.release.documents.lock import Managed
from hermesops.node.release.slots.disk import DiskSlots
from hermesops.node.release.slots.slot import base_of, record_of_lock
from tests.support.fakes.node_home import FakeSystem
from tests.unit.node.release.documents.test_lock import LOCK

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
NEWER = replace(
    LOCK,
    config_schema=37,
    managed=Managed({"gateway": {"systemd_watchdog_seconds": 0}}, {"TZ": "Europe/Berlin"}),
)


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine whose running slot a role has made, and that has a newer release beside it."""
    layout = Layout(tmp_path)
    layout.base.parent.mkdir(parents=True)
    layout.base.write_text(json.dumps(BASE))
    records = {"first": b'{"id": "first", "origin": "role"}', NEWER.id: record_of_lock(NEWER, "3.11")}
    for name, record in records.items():
        slot = tmp_path / "opt/hermes/releases" / name
        slot.mkdir(parents=True)
        (slot / "release.json").write_bytes(record)
    layout.current.symlink_to("releases/first")
    return Machine(layout, system=FakeSystem(), slots=DiskSlots(layout))


def test_a_slot_of_the_role_lays_nothing_over(machine: Machine) -> None:
    base = base_of(machine)
    assert (base.config, base.environment, base.user_config) == (
        BASE["config"],
        BASE["environment"],
        BASE["user_config"],
    )


def test_a_release_lays_its_own_over_key_by_key(machine: Machine) -> None:
    base = base_of(machine, NEWER.id)
    assert base.config == {"agent": {"max_turns": 9}, "gateway": {"systemd_watchdog_seconds": 0}}
    assert base.environment == {"TZ": "Europe/Berlin", "TERMINAL_ENV": "local"}


def test_a_newcomers_first_file_is_of_the_agent_that_runs(machine: Machine) -> None:
    assert base_of(machine, NEWER.id).user_config == {"_config_version": 37, "command_allowlist": ["execute_code"]}
