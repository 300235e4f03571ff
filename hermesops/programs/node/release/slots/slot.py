"""One slot: its record, the unit and managed files that differ between slots, and their staged copies for a rollback.

A rollback only renames what is staged here, so it works on a full disk.
"""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hermesops.programs.node.instance import certificate, render, warm
from hermesops.programs.node.instance.agent import installation
from hermesops.programs.node.instance.agent.installation import Base, account
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import Access
from hermesops.wire.documents.lock import Lock
from hermesops.wire.errors import NotReadyError
from hermesops.wire.layout import UNIT
from hermesops.wire.protocol import Payload
from hermesops.wire.settings import merged


def current(machine: Machine) -> str:
    """Id of the release in the running slot; empty where there is none."""
    slot = machine.files.link_target(machine.layout.current)
    return slot.name if slot else ""


def record_of(machine: Machine, release: str) -> dict[str, Any]:
    """A slot's record, ``release.json``; empty where there is no such slot, or it is incomplete."""
    if not release:
        return {}
    data = machine.files.read(machine.layout.releases / release / "release.json")
    return dict(json.loads(data)) if data else {}


def base_of(machine: Machine, release: str | None = None) -> Base:
    """The base configuration with a release's own part laid over it; of the running one unless another is named.

    Raises:
        NotReadyError: The roles have not been applied.
    """
    base = installation.load_base(machine.files, machine.layout.base)
    record = record_of(machine, current(machine) if release is None else release)
    managed = record.get("managed") or {}
    return replace(
        base,
        config=merged(base.config, managed.get("config") or {}),
        environment={**base.environment, **(managed.get("environment") or {})},
        user_config={**base.user_config, **({"_config_version": schema} if (schema := schema_of(record)) else {})},
    )


def schema_of(record: dict[str, Any]) -> int:
    """The number of the configuration schema that a slot's agent writes; 0 where there is no slot."""
    return int(json.loads(record["lock"])["config_schema"]) if record else 0


SHOWN = ("id", "hermes_agent", "python", "lock_sha256")
"""Fields that are for people."""


def record_of_lock(lock: Lock, python: str) -> bytes:
    """The record of a slot that is made from a lock, with all facts that a switch to it needs.

    ``python`` is the machine's own.
    """
    record = {
        "id": lock.id,
        "hermes_agent": lock.agent_version,
        "python": lock.interpreter.version if lock.interpreter else python,
        "lock_sha256": lock.digest,
        "managed": {"config": dict(lock.managed.config), "environment": dict(lock.managed.environment)},
        "lock": lock.to_json().decode(),
    }
    return json.dumps(record, sort_keys=True, indent=1).encode() + b"\n"


_WORLD = Access(0o644)


def occupant(machine: Machine) -> Payload | None:
    """The payload of the agent here: a user's, a placeholder, or none."""
    data = machine.files.read(machine.layout.payload)
    if data is not None and machine.files.read(machine.layout.identity) is not None:
        return Payload.from_json(data)
    return warm.held_placeholder(machine)


def unit_of(machine: Machine, release: str) -> bytes:
    """A slot's unit.

    Raises:
        NotReadyError: The slot is incomplete.
    """
    unit = machine.files.read(machine.layout.releases / release / UNIT)
    if unit is None:
        raise NotReadyError(f"the slot of release {release} has no {UNIT}")
    return unit


def _places(machine: Machine) -> tuple[Path, Path, Path]:
    """The files that differ between slots: managed configuration, managed environment, unit."""
    return machine.layout.managed / "config.yaml", machine.layout.managed / ".env", machine.layout.unit(UNIT)


def _files(machine: Machine, release: str) -> Mapping[Path, tuple[bytes, Access]]:
    """The content of those files with one slot."""
    files: dict[Path, tuple[bytes, Access]] = {}
    config, environment, service = _places(machine)
    base, payload = base_of(machine, release), occupant(machine)
    if payload is not None:
        shared = Access(0o640, 0, account(machine, base.user).gid)
        files[config] = (render.managed_config(base, payload), shared)
        authorities = certificate.all_authorities(machine)
        files[environment] = (render.managed_environment(base, payload, authorities=authorities), shared)
    files[service] = (unit_of(machine, release), _WORLD)
    return files


def stage_rollback_files(machine: Machine, release: str) -> None:
    """Stage the files that a slot needs to run again; the link comes last."""
    for path, (data, access) in _files(machine, release).items():
        machine.files.write_if_changed(machine.layout.rollback_file(path.name), data, access)
    machine.slots.point(machine.layout.back.name, release)


def take_rollback_files(machine: Machine) -> None:
    """Put the staged files in place; does nothing when repeated."""
    for path in _places(machine):
        machine.slots.rename(machine.layout.rollback_file(path.name), path)
    machine.system.systemctl("daemon-reload")
    machine.slots.rename(machine.layout.back, machine.layout.current)


def clear_rollback_files(machine: Machine) -> None:
    """Remove the staged files: there is nothing to roll back."""
    for path in _places(machine):
        machine.remove(machine.layout.rollback_file(path.name))
    machine.remove(machine.layout.back)


def switch_to(machine: Machine, release: str) -> None:
    """Install the staged files of a slot; no gateway runs. The link comes last."""
    for path, (data, access) in _files(machine, release).items():
        machine.files.write_if_changed(path, data, access)
    machine.system.systemctl("daemon-reload")
    machine.slots.point(machine.layout.current.name, release)
