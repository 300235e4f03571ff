"""Composio's answers, checked: ids, addresses and statuses; the tokens of services in them are never read.

Source: Composio's API reference, version 3.1: "connected accounts", "create a new auth link session", "tool router".
"""

import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import UnavailableError
from hermesops.model.connections.connection import AccountStatus, VendorAccount
from hermesops.wire.foreign_text import one_line

ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
"""Ids of accounts, auth configurations and sessions."""

LONGEST_ADDRESS = 1024
_LONGEST_BROWSER_ADDRESS = 4096
_MOST_SCOPES = 100
_SCOPE = re.compile(r"[\x21-\x7e]{1,256}")
_SLUG = re.compile(r"[a-z0-9_-]{1,64}")

_STATUSES = {
    "INITIALIZING": AccountStatus.PENDING,
    "INITIATED": AccountStatus.PENDING,
    "ACTIVE": AccountStatus.ACTIVE,
    "EXPIRED": AccountStatus.EXPIRED,
    "FAILED": AccountStatus.FAILED,
    "INACTIVE": AccountStatus.STOPPED,
    "REVOKED": AccountStatus.STOPPED,
}


def account_in(answer: Mapping[str, Any]) -> VendorAccount:
    """Parse a connected account. Pure.

    Raises:
        UnavailableError: It is malformed, or has a status that is not known.
    """
    toolkit = answer.get("toolkit")
    slug = toolkit.get("slug") if isinstance(toolkit, Mapping) else None
    status = _STATUSES.get(str(answer.get("status")))
    if status is None or not isinstance(slug, str) or not _SLUG.fullmatch(slug.lower()):
        raise UnavailableError("Composio's answer about an account is malformed")
    if answer.get("is_disabled") is True and status is AccountStatus.ACTIVE:
        status = AccountStatus.STOPPED
    user, scopes = answer.get("user_id"), answer.get("requested_scopes")
    return VendorAccount(
        id_in(answer, "id"), status, slug.lower(), user[:128] if isinstance(user, str) else "", _scopes(scopes)
    )


def id_in(answer: Mapping[str, Any], name: str) -> str:
    """Parse an id. Pure.

    Raises:
        UnavailableError: It is none.
    """
    value = answer.get(name)
    if not isinstance(value, str) or not ID.fullmatch(value):
        raise UnavailableError(f"Composio's answer has no usable {name}")
    return value


def browser_address_in(answer: Mapping[str, Any], *, origin: str) -> str:
    """Parse the address to which a browser shall go: by HTTPS, or at Composio's own origin. Pure.

    Raises:
        UnavailableError: It is none.
    """
    address = _address(answer.get("redirect_url"), _LONGEST_BROWSER_ADDRESS)
    if address and (origin_of(address) == origin or address.startswith("https://")):
        return address
    raise UnavailableError("Composio's answer has no usable redirect_url")


def mcp_address_in(answer: Mapping[str, Any], *, origin: str) -> str:
    """Parse the address of a session's MCP server: at Composio's own origin, since the project's key goes there. Pure.

    Raises:
        UnavailableError: It is none, or elsewhere.
    """
    mcp = answer.get("mcp")
    address = _address(mcp.get("url") if isinstance(mcp, Mapping) else None, LONGEST_ADDRESS)
    if address and origin_of(address) == origin:
        return address
    raise UnavailableError("Composio's answer has no usable address of an MCP server")


def time_in(answer: Mapping[str, Any], name: str) -> datetime:
    """Parse a time. Pure.

    Raises:
        UnavailableError: It is none.
    """
    value = answer.get(name)
    try:
        time = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        time = None
    if time is None:
        raise UnavailableError(f"Composio's answer has no usable {name}")
    return time.replace(tzinfo=UTC) if time.tzinfo is None else time.astimezone(UTC)


def words_in(answer: Mapping[str, Any]) -> str:
    """The words of an error, as one line that may be logged; empty for none. Pure."""
    error = answer.get("error")
    message = error.get("message") if isinstance(error, Mapping) else answer.get("message")
    return one_line(message, longest=120) if isinstance(message, str) else ""


def origin_of(address: str) -> str:
    """Scheme, host and port of an address; empty for none. Pure."""
    try:
        parts = urlsplit(address)
        port = parts.port
    except ValueError:
        return ""
    if parts.scheme not in {"http", "https"} or not parts.hostname or parts.username or parts.password:
        return ""
    return f"{parts.scheme}://{parts.hostname}:{port or (443 if parts.scheme == 'https' else 80)}"


def _address(value: object, longest: int) -> str:
    """A text that may be an address; empty for none."""
    is_usable = isinstance(value, str) and len(value) <= longest and value.isascii() and value.isprintable()
    return str(value) if is_usable and " " not in str(value) else ""


def _scopes(value: object) -> tuple[str, ...]:
    listed = value[:_MOST_SCOPES] if isinstance(value, list) else []
    return tuple(scope for scope in listed if isinstance(scope, str) and _SCOPE.fullmatch(scope))
