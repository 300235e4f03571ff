"""Steps shared by several workflows: each module has its step types, decision and execution."""

from dataclasses import dataclass

from hermesops.model.ids import MachineId


@dataclass(frozen=True)
class OnMachine:
    """A step that is done on one machine."""

    machine_id: MachineId
