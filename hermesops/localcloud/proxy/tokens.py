"""Proxy tokens: made, checked, revoked. Only hashes are remembered."""

import hashlib
import secrets
from uuid import uuid4

from hermesops.localcloud.api.problem import Problem
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import TokenRow

LONGEST_S = 7 * 24 * 3600
"""The vendor shortens any longer wish. Source: comment in a public client, 2026-04."""


def mint(store: Store, machine_id: str, label: str, expires_in_s: int) -> tuple[TokenRow, str]:
    """Make a token for every port of one machine; the clear text exists in the answer only."""
    token = f"pt_{secrets.token_urlsafe(32)}"
    expires = now(plus_s=min(expires_in_s, LONGEST_S))
    row = TokenRow(str(uuid4()), machine_id, label, _hash(token), expires)
    store.add(row)
    return row, token


def check(store: Store, machine_id: str, token: str) -> None:
    """Let a request through to a machine.

    Raises:
        Problem: 401 without a live token, 403 with one of another machine.
    """
    found = store.find(TokenRow, sha256=_hash(token)) if token else []
    if not found or found[0].expires_at <= now():
        raise Problem(401, "Missing, expired or revoked proxy token")
    if found[0].machine_id != machine_id:
        raise Problem(403, "This proxy token is for another machine")


def forget_expired(store: Store) -> None:
    """Remove tokens that nobody can use any more."""
    store.remove_expired_tokens(now())


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
