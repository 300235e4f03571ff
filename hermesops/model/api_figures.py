"""Figures of the users' half that operators see: counts, and nothing of a user's."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

WINDOW_S = 300
"""Seconds that the figures of a process are about."""


@dataclass(frozen=True)
class RequestFigures:
    """Requests to the API in the last minutes.

    Attributes:
        users: Users with a request that is answered from rows.
        slow_users: Those of them who waited too long for one, or got an error of the server.
        webhooks_taken: Vendors' events that were taken, and that were refused as unsigned.
    """

    users: int = 0
    slow_users: int = 0
    webhooks_taken: int = 0
    webhooks_refused: int = 0


@dataclass(frozen=True)
class ServiceConnections:
    """Connections to one service.

    Attributes:
        linked: Users with a linked account.
        expired: Users whose account stopped working within the last day.
    """

    service: str
    linked: int
    expired: int


@dataclass(frozen=True)
class OrphanedTurn:
    """A turn that has not ended and that no process carries.

    Attributes:
        since: End of the last process's lease; the turn's begin where none carried it.
    """

    id: str
    instance_id: str
    user_id: str
    state: str
    since: datetime


@dataclass(frozen=True)
class UsersHalf:
    """The users' half as the registry shows it.

    Attributes:
        processes: Processes of the API that wrote their figures within a minute.
        orphaned: The oldest first, some hundred at most.
        orphaned_users: How many users have one.
    """

    processes: int
    requests: RequestFigures
    orphaned: Sequence[OrphanedTurn]
    orphaned_users: int
    connections: Sequence[ServiceConnections]
