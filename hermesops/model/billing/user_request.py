"""Requests of users that only workers may carry out: rows with a decision, and an outcome that their user can read."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from hermesops.model.ids import OperationId, UserId

BODY_STAYS = timedelta(hours=24)
"""For how long the content of a request is kept after its end."""

ROW_STAYS = timedelta(days=90)
"""For how long an ended request's row is kept. A client's key is known for as long."""


class RequestKind(StrEnum):
    """Kinds of requests. Workers leave other words to a newer hermesops."""

    SUBSCRIBE = "subscribe"
    """Buy a plan: the answer has the address of a checkout page."""

    CANCEL = "cancel"
    """End the subscription with the period that is paid."""

    PORTAL = "portal"
    """Change card, address or plan at Stripe: the answer has the address of a page there."""

    SETTINGS = "settings"
    """Give the agent other settings."""


class RequestState(StrEnum):
    """States of a user's request, from its receipt to its end."""

    QUEUED = "queued"
    """No worker has decided about it."""

    WAITING = "waiting"
    """It is under way: the user, Stripe or an operation has to act next."""

    DONE = "done"
    REFUSED = "refused"


ENDED = frozenset({RequestState.DONE, RequestState.REFUSED})
"""States that nothing follows."""


@dataclass(frozen=True)
class UserRequest:
    """A row of ``user_requests`` without its content.

    Attributes:
        kind: A word of ``RequestKind``; another one is of a newer hermesops.
        client_key: The client's own name of the request, unique for the user: repeating it opens no second one.
        body: Parameters, sealed; empty once they are dropped.
        answer: Content of the outcome, as an address, sealed; empty for none.
        code: Of the outcome, for programs, as ``changed-meanwhile``; empty for none.
        detail: The outcome in words for the user; empty for none.
        operation_id: The operation that was opened for it.
        due_at: When a worker looks at it next; ``None`` for at once.
        tries: How often it could not be decided in a row.
    """

    id: str
    user_id: UserId
    kind: str
    client_key: str
    state: RequestState
    created_at: datetime
    body: str = field(default="", repr=False)
    answer: str = field(default="", repr=False)
    code: str = ""
    detail: str = ""
    operation_id: OperationId | None = None
    due_at: datetime | None = None
    decided_at: datetime | None = None
    ended_at: datetime | None = None
    tries: int = 0


def actor_of(user_id: UserId) -> str:
    """The actor of audit entries about what a user asked for."""
    return f"user:{user_id}"


def requests_lease(user_id: UserId) -> str:
    """Subject of the lease for carrying out a user's requests."""
    return f"user-requests/{user_id}"
