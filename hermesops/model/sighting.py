"""How a machine looked when it was last looked at: what tells later that it has changed behind our back."""

from dataclasses import dataclass
from datetime import datetime

from hermesops.model.ids import MachineId

READY = "ready"
"""What the vendor calls a machine that is up, in the words of its API."""

GONE = "gone"
"""The status of a machine that an instance is on and that the vendor did not list; the vendor says no such thing."""


@dataclass(frozen=True)
class MachineObservation:
    """One machine at one moment.

    Attributes:
        status: The vendor's, or ``GONE``.
        boot_id: Of its boot at that moment; empty when the machine was not asked.
        boot_seen_at: When that boot was seen last; ``None`` when it never was.
    """

    machine_id: MachineId
    name: str
    server_type: str
    status: str
    boot_id: str = ""
    boot_seen_at: datetime | None = None


@dataclass(frozen=True)
class Unconfirmed:
    """A running instance whose machine the vendor does not call ready.

    Attributes:
        user: Alias, else id.
        machine: The machine's name.
        status: What it was at the last listing; empty when it is on that machine only since then.
    """

    user: str
    machine: str
    status: str


@dataclass(frozen=True)
class Confirmation:
    """What the vendor said of the machines of all instances that the registry calls running.

    Attributes:
        listed_at: When all machines were listed last; ``None`` when they never were.
        confirmed: Running instances whose machines were ready then.
        unconfirmed: The others, by user; none while nothing was ever listed.
    """

    listed_at: datetime | None
    confirmed: int
    unconfirmed: tuple[Unconfirmed, ...] = ()
