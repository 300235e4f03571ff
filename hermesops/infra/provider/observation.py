"""Orders to the vendor, its descriptions, and the two errors of unfinished work."""

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
        stage: Stage of its provisioning, in the vendor's words.
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
    """An image to save: its name, and the machine to save."""

    name: str
    machine_id: str


@dataclass(frozen=True)
class ObservedImage:
    """An image as the vendor described it just now; missing fields are empty.

    Attributes:
        status: ``creating``, ``ready``, ``failed`` or ``deleted``.
        bootable: True if machines can be ordered from it; its status is ``ready`` a little earlier.
        machine_id: The machine that was saved.
        reason: Cause of a failure; empty if the vendor gives none.
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
    """A machine or image exists and is billed, but is not as ordered (yet): keep its id.

    ``reason`` describes the missing part, in one line.
    """

    def __init__(self, observed: Observed, reason: str) -> None:
        super().__init__(reason)
        self.observed = observed


class InterruptedWorkError(HermesError):
    """The engine asked to stop before it was done; the same command does the rest."""
