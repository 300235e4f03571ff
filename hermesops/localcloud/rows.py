"""What the server remembers: one dataclass per table, one field per column. Pure.

Times are ISO 8601 in UTC, so that they sort as text and go to the wire unchanged.
"""

from dataclasses import dataclass, field
from enum import StrEnum


class MachineStatus(StrEnum):
    """The vendor's five; there is none for a reboot or an image being taken."""

    PROVISIONING = "provisioning"
    READY = "ready"
    STOPPED = "stopped"
    ERROR = "error"
    DELETED = "deleted"


class Wanted(StrEnum):
    """What the owner asked for last."""

    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


class ImageStatus(StrEnum):
    """The vendor's four."""

    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class MachineRow:
    """One machine, from the order until nothing of it is left.

    Attributes:
        number: See ``MachinePlan.number``; free again once the row is gone.
        status: What the API says; ``wanted`` is what was asked for, and the two may differ for a while.
        made: The driver has made it; if it is absent afterwards, its disk is lost and nobody makes another.
        reboot: A reboot was ordered and not done yet.
        pretends: A fault's name that changes what the API says of it; empty for none.
        env: JSON object of the machine's variables.
    """

    id: str
    number: int
    slug: str
    name: str
    server_type: str
    region: str
    image_id: str | None
    created_at: str
    private_key: str = field(repr=False)
    public_key: str
    daemon_token: str = field(repr=False)
    machine_token: str = field(repr=False)
    env: str = field(default="{}", repr=False)
    init_script: str = field(default="", repr=False)
    backups: bool = False
    status: str = MachineStatus.PROVISIONING
    stage: str = "server_creating"
    stage_at: str = ""
    ready_at: str | None = None
    wanted: str = Wanted.RUNNING
    made: bool = False
    reboot: bool = False
    pretends: str = ""
    message: str = ""


@dataclass(frozen=True)
class ImageRow:
    """One image taken of a machine.

    Attributes:
        provider_image_id: Set once it can be booted from.
        description: Why it failed.
    """

    id: str
    name: str
    source_machine_id: str
    disk_size_gb: int
    created_at: str
    updated_at: str
    status: str = ImageStatus.CREATING
    provider_image_id: str | None = None
    bytes_used: int = 0
    description: str = ""


@dataclass(frozen=True)
class TokenRow:
    """One proxy token; only its hash is kept."""

    id: str
    machine_id: str
    label: str
    sha256: str
    expires_at: str


@dataclass(frozen=True)
class FaultRow:
    """One fault waiting to happen.

    Attributes:
        machine: Id, name or slug of the machine it is for; empty for any.
        times: How often it will still happen.
        method: HTTP method it is for; empty for any.
        path: Beginning of the path below ``/api/v1`` it is for; empty for any.
        status: Status it answers, where its kind leaves that open.
        seconds: Silence it is about, where its kind is about one.
    """

    id: str
    kind: str
    machine: str
    times: int
    method: str
    path: str
    status: int
    seconds: int


@dataclass(frozen=True)
class ModelRequestRow:
    """One request to a model; no word of it.

    Attributes:
        id: Given by the database.
        status: What the router answered.
    """

    id: int | None
    instance: str
    model: str
    at: str
    status: int


@dataclass(frozen=True)
class FloorRow:
    """The oldest generation of an instance's router tokens that is still good; ``id`` is the instance."""

    id: str
    oldest_generation: int
