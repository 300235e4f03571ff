"""Steps that several workflows share."""

from dataclasses import dataclass

from hermesops.model.ids import MachineId


@dataclass(frozen=True)
class OnMachine:
    """A step that is done on one machine."""

    machine_id: MachineId
