"""An external service that a user's agent may act on for them."""

from dataclasses import dataclass, field
from datetime import datetime

from hermesops.model.ids import InstanceId


@dataclass(frozen=True)
class ServiceConnection:
    """A row of ``hermes_connections``.

    Attributes:
        service: ``google``, ``notion``, ``github`` …
        refresh_token: Empty where the service gives none.
        scopes: What was granted.
        expires_at: When the access token ends; ``None`` when it does not.
    """

    instance_id: InstanceId
    service: str
    access_token: str = field(repr=False)
    refresh_token: str = field(repr=False)
    scopes: tuple[str, ...]
    expires_at: datetime | None
    connected_at: datetime
