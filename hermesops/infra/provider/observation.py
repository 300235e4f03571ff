"""What is ordered of the vendor, what it describes, and the two ways in which work is left unfinished."""

from dataclasses import dataclass
from typing import TypeAlias

from hermesops.errors import HermesError


@dataclass(frozen=True)
class MachineSpec:
    """A machine to rent.

    Attributes:
        image_id: Empty for the vendor's own base.
        data_gb: Gigabytes of its data volume; empty for none.
    """

    name: str
    server_type: str
    region: str
    image_id: str
    data_gb: str = ""


@dataclass(frozen=True)
class ObservedMachine:
    """A machine as the vendor described it; missing fields are empty.

    Attributes:
        status: ``provisioning``, ``ready``, ``stopped``, ``error`` or ``deleted``.
        stage: How far its making has come, in the vendor's words.
        created_at: ISO 8601, in UTC.
    """

    id: str
    name: str
    status: str
    stage: str = ""
    slug: str = ""
    region: str = ""
    server_type: str = ""
    image_id: str = ""
    ip: str = ""
    port_template: str = ""
    created_at: str = ""


@dataclass(frozen=True)
class ImageSpec:
    """An image to save: of which machine, under which name."""

    name: str
    machine_id: str


@dataclass(frozen=True)
class ObservedImage:
    """An image as the vendor described it just now; what it did not say is empty.

    Attributes:
        status: ``creating``, ``ready``, ``failed`` or ``deleted``.
        bootable: Whether machines can be ordered from it; the vendor says ``ready`` a little before.
        machine_id: Whose disk it is.
        reason: Why it failed, where the vendor says so.
        created_at: ISO 8601, in UTC.
    """

    id: str
    name: str
    status: str
    bootable: bool = False
    machine_id: str = ""
    reason: str = ""
    created_at: str = ""


Observed: TypeAlias = ObservedMachine | ObservedImage


class HalfMadeError(HermesError):
    """It exists, is billed, and is not what was asked for (yet): keep its id.

    ``reason`` is what is missing, in one line.
    """

    def __init__(self, observed: Observed, reason: str) -> None:
        super().__init__(reason)
        self.observed = observed


class InterruptedWorkError(HermesError):
    """The engine asked to stop before it was done; the same command does the rest."""
