"""State of ``metrics`` between runs: counters and read positions of logs; lost at a reboot."""

import json
from dataclasses import dataclass, field
from typing import Any

from hermesops.programs.node.machine import Machine
from hermesops.programs.node.system.files import PRIVATE
from hermesops.wire import strict_json
from hermesops.wire.errors import NodeError


@dataclass
class Memory:
    """State of ``metrics`` between runs, since the boot.

    Attributes:
        errors: Number of failed readings of parts since the boot.
        parts: State of each part by its name, as JSON.
    """

    errors: int = 0
    parts: dict[str, dict[str, Any]] = field(default_factory=dict)

    def save(self, machine: Machine) -> None:
        """Store the state for the next run."""
        data = json.dumps({"errors": self.errors, "parts": self.parts}, sort_keys=True).encode()
        machine.files.write_if_changed(machine.layout.metrics_memory, data, PRIVATE)


def load(machine: Machine) -> Memory:
    """The state of the run before; empty before the first run, and if the file is damaged."""
    try:
        raw = strict_json.parse_object(machine.files.read(machine.layout.metrics_memory) or b"{}")
        parts = raw.get("parts", {})
        return Memory(int(raw.get("errors", 0)), {str(name): dict(counters) for name, counters in parts.items()})
    except (NodeError, ValueError, TypeError, AttributeError):
        return Memory()


def number(counters: dict[str, Any], name: str) -> int:
    """A whole number in a part's state; 0 if it is missing."""
    value = counters.get(name, 0)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
