"""JustAVPS's objects as they arrive, parsed leniently: shapes changed within weeks, so only an id is insisted on.

No type here has a field for the root private key that every machine answer carries: it is dropped while parsing, and
with it every ``setup_command``, which is a shell line around the same key.
"""

from collections.abc import Mapping
from datetime import datetime
from enum import StrEnum
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator

Id = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}$")]
"""The vendor's id of a thing; it becomes part of a path, so its characters are restricted."""


class MachineStatus(StrEnum):
    """The vendor's statuses; ``unknown`` is ours, for any other."""

    PROVISIONING = "provisioning"
    READY = "ready"
    STOPPED = "stopped"
    ERROR = "error"
    DELETED = "deleted"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "MachineStatus":  # noqa: ARG003 - the signature is enum's
        return cls.UNKNOWN


class ImageStatus(StrEnum):
    """The vendor's statuses of images; ``unknown`` is ours."""

    CREATING = "creating"
    READY = "ready"
    FAILED = "failed"
    DELETED = "deleted"
    UNKNOWN = "unknown"

    @classmethod
    def _missing_(cls, value: object) -> "ImageStatus":  # noqa: ARG003 - the signature is enum's
        return cls.UNKNOWN


class Wire(BaseModel):
    """Anything that arrives; unknown fields are ignored."""

    # A ValidationError repeats its input unless told not to, and an input may hold the root key.
    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)


def _known_price(value: object) -> object:
    """A negative price would make room in a budget: it counts as unknown."""
    return None if isinstance(value, int | float) and value < 0 else value


Price = Annotated[float | None, BeforeValidator(_known_price)]


class MachineUrls(Wire):
    """URLs of a machine.

    Attributes:
        port_template: URL of a port with the placeholder ``{port}`` (and perhaps ``{slug}``); newer answers only.
    """

    port_template: Annotated[str, BeforeValidator(lambda value: value if isinstance(value, str) else "")] = ""


Urls = Annotated[MachineUrls, BeforeValidator(lambda value: value if isinstance(value, Mapping) else {})]


class Machine(Wire):
    """A rented machine.

    Attributes:
        price_monthly: In US dollars a month, with backups where they are on.
    """

    id: Id
    slug: str = ""
    name: str = ""
    status: MachineStatus = MachineStatus.UNKNOWN
    provisioning_stage: str = ""
    image_id: str | None = None
    server_type: str = ""
    region: str = ""
    ip: str | None = None
    price_monthly: Price = None
    created_at: datetime | None = None
    urls: Urls = MachineUrls()

    @field_validator("slug", "name", "provisioning_stage", "server_type", "region", mode="before")
    @classmethod
    def _null_is_empty(cls, value: object) -> object:
        return "" if value is None else value

    @property
    def address_of_ports(self) -> str:
        """Proxy URL of a port, with ``{port}`` in its place; empty if the vendor's answer has none."""
        template = self.urls.port_template
        return template.replace("{slug}", self.slug).rstrip("/") if "{port}" in template else ""

    def url_of_port(self, port: int) -> str | None:
        """Return the proxy URL of a port, or ``None`` if the vendor's answer has no template."""
        return self.address_of_ports.replace("{port}", str(port)) or None


class Image(Wire):
    """A saved disk.

    Attributes:
        provider_image_id: Set once the provider below JustAVPS has it; without it a ``ready`` image does not boot yet.
        description: Why it failed, where the vendor says so.
    """

    id: Id
    name: str = ""
    status: ImageStatus = ImageStatus.UNKNOWN
    source_machine_id: str | None = None
    provider_image_id: str | None = None
    disk_size_gb: float | None = None
    description: str | None = None
    created_at: datetime | None = None

    @property
    def bootable(self) -> bool:
        """True if a machine can be ordered from the image now."""
        return self.status is ImageStatus.READY and bool(self.provider_image_id)


class ProxyToken(Wire):
    """A token for a machine's ports; the vendor caps its life at seven days."""

    id: Id
    token: str = Field(repr=False)
    expires_at: datetime | None = None


class ServerType(Wire):
    """A size that can be rented; its price is in US dollars a month."""

    name: str
    price_monthly: Price = None
    available: bool = True


class Usage(Wire):
    """Usage of an account in the current period. The estimated cost is in US dollars."""

    total_machines: int = 0
    estimated_cost: float | None = None


class UsageAnswer(Wire):
    """Envelope of usage in the API's answer."""

    current_period: Usage = Usage()


class Account(Wire):
    """The account that an API key belongs to."""

    id: Id
    machines_count: int = 0


class MachineOrder(Wire):
    """Parameters of a new machine.

    Attributes:
        name: Unique for the attempt: a lost order is found again by its name alone.
        image_id: Image to boot; ``None`` for the vendor's own base.
    """

    name: str = Field(min_length=1)
    server_type: str
    region: str
    image_id: str | None = None
    env_vars: Mapping[str, str] = Field(default_factory=dict, repr=False)

    def to_wire(self) -> dict[str, Any]:
        """Return the JSON body of ``POST /machines``, without fields at their defaults."""
        body: dict[str, Any] = {"name": self.name, "server_type": self.server_type, "region": self.region}
        if self.image_id:
            body["image_id"] = self.image_id
        if self.env_vars:
            body["env_vars"] = dict(self.env_vars)
        return body
