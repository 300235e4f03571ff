"""The next step of a connection, from its row and the account that the vendor shows. Pure.

A link may reach another person than the one who asked for it, who then connects *their* account to an agent that is not
theirs. So an account counts only once the browser that got the link came back with its state: what the vendor says of
an account before is not looked at.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import assert_never

from hermesops.model.connections.connection import AccountStatus, Connection, ConnectionState, VendorAccount

LINK = timedelta(minutes=10)
"""Life of a link at Composio, where it did not say it."""

SETTLING = timedelta(minutes=5)
"""From the browser's return until an account that is still pending counts as refused."""

CHECKED = timedelta(minutes=10)
"""Between two looks at the account of a connection."""

KEPT = timedelta(days=1)
"""How long a failure is shown."""

NOT_AGREED = "the service did not agree; connect it again"
NOT_YOURS = "the service answered for another account; connect it again"
EXPIRED = "the service no longer takes the sign-in; connect it again"
REMOVED = "the sign-in was removed; connect it again"

_LOST = {
    AccountStatus.EXPIRED: EXPIRED,
    AccountStatus.FAILED: EXPIRED,
    AccountStatus.STOPPED: REMOVED,
    AccountStatus.GONE: REMOVED,
}


@dataclass(frozen=True)
class Move:
    """Change the state; ``detail`` is for the user."""

    state: ConnectionState
    detail: str = ""


@dataclass(frozen=True)
class Seen:
    """Record that the account is as it was."""


@dataclass(frozen=True)
class Clean:
    """Revoke and delete the account at the vendor."""


@dataclass(frozen=True)
class Drop:
    """Decision to delete the row of a connection."""


Step = Move | Seen | Clean | Drop


def looks_at_account(connection: Connection) -> bool:
    """Whether the next step depends on the account at the vendor."""
    return connection.state in {ConnectionState.CONFIRMED, ConnectionState.LINKED, ConnectionState.EXPIRED}


def next_step(connection: Connection, account: VendorAccount | None, *, has_agent: bool, now: datetime) -> Step | None:
    """The next step; ``None`` for none now.

    Args:
        account: As the vendor shows it; ``None`` where it did not answer, or was not asked.
        has_agent: Whether the instance is not terminated.
    """
    match connection.state:
        case ConnectionState.REVOKING:
            return Drop() if connection.cleaned_at else Clean()
        case ConnectionState.FAILED:
            if connection.cleaned_at is None:
                return Clean()
            return Drop() if now > connection.changed_at + KEPT or not has_agent else None
        case _ if not has_agent:
            return Move(ConnectionState.REVOKING)
        case ConnectionState.REQUESTED:
            return Move(ConnectionState.REVOKING) if now > connection.link_expires_at else None
        case ConnectionState.CONFIRMED:
            return _of_confirmed(connection, account, now)
        case ConnectionState.LINKED:
            return _of_linked(connection, account)
        case ConnectionState.EXPIRED:
            return _of_expired(connection, account)
        case _ as never:
            assert_never(never)


def comes_back(connection: Connection, user: str, session: str) -> bool:
    """Whether the browser that came back is the one that got the link; an account of any other one goes away."""
    return connection.user_id == user and connection.session in {"", session}


def is_wanted_by_agent(connections: Iterable[Connection]) -> bool:
    """Whether the agent needs the way to its services."""
    return any(connection.state is ConnectionState.LINKED for connection in connections)


def accounts_for_agent(connections: Iterable[Connection]) -> Mapping[str, tuple[str, ...]]:
    """The accounts that the agent may use, by service."""
    linked = [each for each in connections if each.state is ConnectionState.LINKED and each.account]
    return {each.service: (each.account,) for each in sorted(linked, key=lambda each: each.service)}


def digest_of(accounts: Mapping[str, tuple[str, ...]]) -> str:
    """A name of a set of accounts."""
    return sha256(repr(sorted(accounts.items())).encode()).hexdigest()


def _of_confirmed(connection: Connection, account: VendorAccount | None, now: datetime) -> Step | None:
    if account is None:
        return None
    if account.status is AccountStatus.PENDING:
        is_late = now > connection.changed_at + SETTLING
        return Move(ConnectionState.FAILED, NOT_AGREED) if is_late else Seen()
    if account.status is not AccountStatus.ACTIVE:
        return Move(ConnectionState.FAILED, NOT_AGREED)
    if not _is_right(connection, account):
        return Move(ConnectionState.FAILED, NOT_YOURS)
    return Move(ConnectionState.LINKED)


def _of_linked(connection: Connection, account: VendorAccount | None) -> Step | None:
    if account is None:
        return None
    if account.status in _LOST:
        return Move(ConnectionState.EXPIRED, _LOST[account.status])
    if account.status is AccountStatus.ACTIVE and not _is_right(connection, account):
        return Move(ConnectionState.EXPIRED, REMOVED)
    return Seen()


def _of_expired(connection: Connection, account: VendorAccount | None) -> Step | None:
    if account is None:
        return None
    return Move(ConnectionState.LINKED) if _is_right(connection, account) else Seen()


def _is_right(connection: Connection, account: VendorAccount) -> bool:
    is_its_own = account.user in {"", connection.instance_id}
    return account.status is AccountStatus.ACTIVE and is_its_own and account.service == connection.service
