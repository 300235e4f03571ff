"""How a machine looked when it was last looked at: what tells later that it has changed behind our back."""

from dataclasses import dataclass
from datetime import datetime

from hermesops.model.ids import MachineId


@dataclass(frozen=True)
class Sighting:
    """One machine at one moment.

    Attributes:
        status: The vendor's.
        boot_id: Of its boot at that moment; empty when the machine was not asked.
        boot_seen_at: When that boot was seen last; ``None`` when it never was.
    """

    machine_id: MachineId
    name: str
    server_type: str
    status: str
    boot_id: str = ""
    boot_seen_at: datetime | None = None
