"""What a run of ``metrics`` remembers for the next one: counters, and how far each log was read; lost with a boot."""

import json
from dataclasses import dataclass, field
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import strict_json
from hermesops.wire.errors import NodeError


@dataclass
class Memory:
    """See the module.

    Attributes:
        errors: How many parts could not be read since the boot.
        parts: What each part remembers, JSON by its own name.
    """

    errors: int = 0
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self, machine: Machine) -> None:
        """Keep it for the next run."""
        data = json.dumps({"errors": self.errors, "parts": self.parts}, sort_keys=True).encode()
        machine.files.write_if_changed(machine.layout.metrics_memory, data, PRIVATE)


def load(machine: Machine) -> Memory:
    """What the run before remembered; nothing before the first, and where the file is damaged."""
    try:
        raw = strict_json.parse_object(machine.files.read(machine.layout.metrics_memory) or b"{}")
        parts = raw.get("parts", {})
        return Memory(int(raw.get("errors", 0)), {str(name): dict(kept) for name, kept in parts.items()})
    except (NodeError, ValueError, TypeError, AttributeError):
        return Memory()


def number(kept: dict[str, Any], name: str) -> int:
    """A whole number that a part remembers; 0 where there is none."""
    value = kept.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
