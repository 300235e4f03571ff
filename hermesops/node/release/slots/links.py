"""What a slot lays over the machine's base configuration, and which one runs."""

import json
from dataclasses import replace
from typing import Any

from hermesops.node.instance.agent import base_config as base_configuration
from hermesops.node.instance.agent.base_config import Base
from hermesops.node.instance.render import merged
from hermesops.node.machine import Machine


def current(machine: Machine) -> str:
    """Id of the release in the running slot; empty where there is none."""
    slot = machine.files.link_target(machine.layout.current)
    return slot.name if slot else ""


def record_of(machine: Machine, release: str) -> dict[str, Any]:
    """What a slot says of itself; empty where there is no such slot, or it is not whole."""
    if not release:
        return {}
    data = machine.files.read(machine.layout.releases / release / "release.json")
    return dict(json.loads(data)) if data else {}


def base_of(machine: Machine, release: str | None = None) -> Base:
    """The base configuration as a release has it; of the running one unless another is named.

    Raises:
        NotReadyError: The roles have not been applied.
    """
    base = base_configuration.load(machine.files, machine.layout.base)
    record = record_of(machine, current(machine) if release is None else release)
    managed = record.get("managed") or {}
    return replace(
        base,
        config=merged(base.config, managed.get("config") or {}),
        environment={**base.environment, **(managed.get("environment") or {})},
        user_config={**base.user_config, **({"_config_version": schema} if (schema := schema_of(record)) else {})},
    )


def schema_of(record: dict[str, Any]) -> int:
    """The schema of the user's configuration that a slot's agent writes, as it numbers them; 0 where nobody says."""
    return int(json.loads(record["lock"])["config_schema"]) if "lock" in record else 0
