"""Connections: one link of an agent to a user's account at a service."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from hermesops.model.ids import InstanceId, UserId


class ConnectionState(StrEnum):
    """States of an agent's connection to a service."""

    REQUESTED = "requested"
    """The user got a link. Nothing that the vendor says of the account counts before the same browser comes back."""

    CONFIRMED = "confirmed"
    """The browser that got the link came back; whether the service agreed is not known yet."""

    LINKED = "linked"
    """The agent may use the service."""

    EXPIRED = "expired"
    """The service no longer takes the account's tokens; the user has to connect again."""

    FAILED = "failed"
    """The service did not agree, and the user sees why."""

    REVOKING = "revoking"
    """The agent has no access any more; the account is still to be revoked and deleted at the vendor."""


SHOWN = frozenset(
    {
        ConnectionState.REQUESTED,
        ConnectionState.CONFIRMED,
        ConnectionState.LINKED,
        ConnectionState.EXPIRED,
        ConnectionState.FAILED,
    }
)
"""States that a user sees; of a service in none of them, the user sees that it is not connected."""

ENDED = frozenset({ConnectionState.FAILED, ConnectionState.REVOKING})
"""States in which nothing may be left at the vendor."""


@dataclass(frozen=True)
class Connection:
    """A row of ``user_connections``.

    Attributes:
        service: As ``Service.slug``.
        account: The vendor's id of the connected account; empty while the vendor has not given one.
        session: Digest of the page session that asked for the link; empty for a client with a bearer token.
        link_expires_at: Until when the link can be used.
        cleaned_at: When nothing was left at the vendor; ``None`` before.
        detail: The reason of a failure, in words for the user.
    """

    id: str
    user_id: UserId
    instance_id: InstanceId
    service: str
    state: ConnectionState
    account: str = field(repr=False)
    session: str = field(repr=False)
    created_at: datetime
    changed_at: datetime
    link_expires_at: datetime
    linked_at: datetime | None = None
    checked_at: datetime | None = None
    cleaned_at: datetime | None = None
    detail: str = ""


class AccountStatus(StrEnum):
    """What the vendor says of a connected account."""

    ACTIVE = "active"
    PENDING = "pending"
    """The user has not gone through the link yet."""

    EXPIRED = "expired"
    FAILED = "failed"
    STOPPED = "stopped"
    """Disabled or revoked."""

    GONE = "gone"
    """The vendor has no such account."""


@dataclass(frozen=True)
class VendorAccount:
    """A connected account as the vendor shows it: none of the service's tokens.

    Attributes:
        user: The vendor's name of its owner, which is an instance id; empty where the vendor leaves it out.
        scopes: What was asked for at the service.
    """

    id: str = field(repr=False)
    status: AccountStatus
    service: str
    user: str = ""
    scopes: tuple[str, ...] = ()
