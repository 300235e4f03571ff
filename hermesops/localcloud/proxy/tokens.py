"""Proxy tokens: made and revoked through the API, checked by the proxy. Only their hashes are stored."""

import secrets
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api.keys import sha256_of
from hermesops.localcloud.api.problem import Problem, found, not_found
from hermesops.localcloud.api.requests import object_of, token_order
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import MachineRow, TokenRow, Wanted, now

_LONGEST_S = 7 * 24 * 3600
"""The vendor shortens any longer life. Source: comment in a public client, 2026-04."""


def _mint(store: Store, machine_id: str, label: str, expires_in_s: int) -> tuple[TokenRow, str]:
    """Make a token for every port of one machine; the clear text exists in the answer only."""
    token = f"pt_{secrets.token_urlsafe(32)}"
    expires = now(plus_s=min(expires_in_s, _LONGEST_S))
    row = TokenRow(str(uuid4()), machine_id, label, sha256_of(token), expires)
    store.add(row)
    return row, token


def check(store: Store, machine_id: str, token: str) -> None:
    """Let a request through to a machine.

    Raises:
        Problem: 401 without a live token, 403 with one of another machine.
    """
    rows = store.find(TokenRow, sha256=sha256_of(token)) if token else []
    if not rows or rows[0].expires_at <= now():
        raise Problem(401, "Missing, expired or revoked proxy token")
    if rows[0].machine_id != machine_id:
        raise Problem(403, "This proxy token is for another machine")


class TokensApi:
    """Handlers of ``/proxy-tokens``."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Route("/proxy-tokens", self._create, methods=["POST"]),
            Route("/proxy-tokens/{token_id}", self._delete, methods=["DELETE"]),
        ]

    async def _create(self, request: Request) -> Response:
        machine_id, label, seconds = token_order(object_of(await request.body()))
        machine = self._store.get(MachineRow, machine_id)
        if machine is None or machine.wanted == Wanted.DELETED:
            raise not_found("Machine")
        request.scope["localcloud"]["machine"] = machine.names
        self._store.remove_expired_tokens(now())
        row, token = _mint(self._store, machine_id, label, seconds)
        return JSONResponse({"id": row.id, "token": token, "expires_at": row.expires_at}, status_code=201)

    async def _delete(self, request: Request) -> Response:
        token_id = request.path_params["token_id"]
        self._store.remove(TokenRow, found(self._store.get(TokenRow, token_id), "Proxy token").id)
        return Response(status_code=204)
