"""The tables of the server's database, one dataclass each, one field per column; and the clock for their times.

Times are ISO 8601 in UTC, so that they sort as text and go to the wire unchanged.
"""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import ClassVar

EPOCH = "2026-01-01T00:00:00.000000Z"
"""Creation time of what every world has from its beginning."""


def now(*, plus_s: float = 0.0) -> str:
    """ISO 8601 in UTC with microseconds, so that text order is time order."""
    return (datetime.now(UTC) + timedelta(seconds=plus_s)).isoformat(timespec="microseconds").replace("+00:00", "Z")


def seconds_until(timestamp: str) -> float:
    """Seconds until a time in the format of ``now``; 0 for one that has passed."""
    return max(0.0, (datetime.fromisoformat(timestamp) - datetime.now(UTC)).total_seconds())


class MachineStatus(StrEnum):
    """The vendor's five statuses; there is none for a reboot or an image being taken."""

    PROVISIONING = "provisioning"
    READY = "ready"
    STOPPED = "stopped"
    ERROR = "error"
    DELETED = "deleted"


class Wanted(StrEnum):
    """The owner's last order for a machine."""

    RUNNING = "running"
    STOPPED = "stopped"
    DELETED = "deleted"


class ImageStatus(StrEnum):
    """The vendor's four statuses of an image."""

    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"


@dataclass(frozen=True)
class Row:
    """A row of a table; the fields are its columns."""

    table: ClassVar[str]


@dataclass(frozen=True)
class MachineRow(Row):
    """One machine, from the order until it is removed completely.

    Attributes:
        number: See ``MachinePlan.number``; free again once the row is gone.
        status: Status in the API; ``wanted`` is the last order, and the two may differ for a while.
        made: The driver has made it; if it is absent afterwards, its disk is lost and is not replaced.
        reboot: A reboot was ordered and not done yet.
        pretends: A fault's name that changes what the API says of it; empty for none.
        env: JSON object of the machine's variables.
        ssh_keys: JSON list of the public keys it was ordered with, besides its own.
        resize: Server type that was ordered for it and is not there yet; empty for none.
        restore: Backup that its disk is to be put back to; empty for none.
        status_before: What ``status`` was before it last changed.
    """

    table = "machines"

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
    ssh_keys: str = "[]"
    resize: str = ""
    restore: str = ""
    status_before: str = ""

    @property
    def names(self) -> tuple[str, str, str]:
        """The names that callers and faults may use."""
        return self.id, self.name, self.slug


@dataclass(frozen=True)
class ImageRow(Row):
    """One image taken of a machine.

    Attributes:
        provider_image_id: Set once it can be booted from.
    """

    table = "images"

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


class BackupStatus(StrEnum):
    """The vendor is known to say ``creating`` for long. The others are the data centre's underneath."""

    CREATING = "creating"
    AVAILABLE = "available"
    UNAVAILABLE = "unavailable"


@dataclass(frozen=True)
class BackupRow(Row):
    """One of the vendor's backups of a machine.

    Attributes:
        copied_at: When the copy was complete, and the backup of use; empty before.
    """

    table = "backups"

    id: str
    machine_id: str
    description: str
    created_at: str
    status: str = BackupStatus.CREATING
    bytes_used: int = 0
    copied_at: str = ""


@dataclass(frozen=True)
class ApiKeyRow(Row):
    """One API key besides the world's own; only its hash is kept."""

    table = "api_keys"

    id: str
    name: str
    key_prefix: str
    sha256: str
    created_at: str
    last_used: str | None = None


@dataclass(frozen=True)
class SshKeyRow(Row):
    """One public key that machines may be ordered with."""

    table = "ssh_keys"

    id: str
    name: str
    public_key: str
    fingerprint: str
    created_at: str


@dataclass(frozen=True)
class WebhookRow(Row):
    """One receiver of events.

    Attributes:
        events: JSON list of the kinds it wants.
    """

    table = "webhooks"

    id: str
    url: str
    events: str
    secret: str = field(repr=False)
    created_at: str
    active: bool = True


@dataclass(frozen=True)
class DeliveryRow(Row):
    """One event on its way to one receiver.

    Attributes:
        body: As it is sent and signed.
        tries: How often it was sent in vain.
        signed: Whether it carries signatures; the vendor's do, unless a fault has it otherwise.
        due_at: Not sent before; empty for at once.
    """

    table = "deliveries"

    id: str
    webhook_id: str
    body: str
    tries: int = 0
    signed: bool = True
    due_at: str = ""


@dataclass(frozen=True)
class TokenRow(Row):
    """One proxy token; only its hash is kept."""

    table = "tokens"

    id: str
    machine_id: str
    label: str
    sha256: str
    expires_at: str


@dataclass(frozen=True)
class FaultRow(Row):
    """One waiting fault; fields as in ``FaultOrder`` but for these.

    Attributes:
        times: Remaining number of strikes; 0 for no limit.
        status: Status it answers, where its kind leaves that open.
        seconds: What its kind counts in seconds.
        probability: 0 and 1 are both always.
        until: When it ends by itself; empty for never.
    """

    table = "faults"

    id: str
    kind: str
    machine: str
    times: int
    method: str
    path: str
    status: int
    seconds: int
    probability: float = 0.0
    seed: int = 0
    draws: int = 0
    until: str = ""


@dataclass(frozen=True)
class ModelRequestRow(Row):
    """One request to a model, without its content; the database gives ids."""

    table = "model_requests"

    id: int | None
    instance: str
    model: str
    at: str
    status: int
