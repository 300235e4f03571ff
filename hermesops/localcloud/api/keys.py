"""Keys and tokens: access to the API and the proxy, public keys for machines, each machine's own root key pair.

Only hashes of API keys and proxy tokens are stored. The world's own key, in ``api.key``, is listed with the others and
cannot be deleted, since the world's operator would lock themselves out.
"""

import base64
import hashlib
import hmac
import secrets
from dataclasses import asdict
from uuid import uuid4

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_ssh_public_key,
    ssh_key_fingerprint,
)
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.localcloud.api.problem import Problem, found, unauthorised
from hermesops.localcloud.api.requests import object_of, text, token_order
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import EPOCH, ApiKeyRow, MachineRow, SshKeyRow, TokenRow, Wanted, now

PREFIX = "/api/v1"
"""Path of the vendor's API."""

_OWN_ID = "00000000-0000-4000-8000-000000000002"
"""Id of the world's own key."""

_LONGEST_S = 7 * 24 * 3600
"""The vendor shortens any longer life. Source: comment in a public client, 2026-04."""

_PREFIX_LENGTH = 12
_NOTED_EVERY_S = 60.0
_FREE = f"{PREFIX}/server-types"


def _sha256(secret: str) -> str:
    """The hash under which a key or token is stored."""
    return hashlib.sha256(secret.encode()).hexdigest()


def new_key_pair(comment: str) -> tuple[str, str]:
    """A private key in OpenSSH's format and its public line."""
    key = Ed25519PrivateKey.generate()
    private = key.private_bytes(Encoding.PEM, PrivateFormat.OpenSSH, NoEncryption()).decode()
    public = key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    return private, f"{public} {comment}"


class Keys:
    """Handlers of ``/api-keys`` and ``/ssh-keys``, and the check of API keys; ``own`` is the world's own key."""

    def __init__(self, store: Store, own: str) -> None:
        self._store = store
        self._own = own

    def routes(self) -> list[Route]:
        """The routes of ``/api-keys`` and ``/ssh-keys``."""
        return [
            Route("/api-keys", self._list_api_keys, methods=["GET"]),
            Route("/api-keys", self._create_api_key, methods=["POST"]),
            Route("/api-keys/{key_id}", self._delete_api_key, methods=["DELETE"]),
            Route("/ssh-keys", self._list_ssh_keys, methods=["GET"]),
            Route("/ssh-keys", self._create_ssh_key, methods=["POST"]),
            Route("/ssh-keys/{key_id}", self._delete_ssh_key, methods=["DELETE"]),
        ]

    def admit(self, authorization: str) -> bool:
        """Whether an ``Authorization`` header carries a valid key."""
        kind, _, key = authorization.partition(" ")
        if kind != "Bearer":
            return False
        if hmac.compare_digest(key.encode("latin-1", "replace"), self._own.encode()):
            return True
        rows = self._store.find(ApiKeyRow, sha256=_sha256(key))
        if rows and (rows[0].last_used or "") < now(plus_s=-_NOTED_EVERY_S):  # not at each call: reads stay reads
            self._store.update(ApiKeyRow, rows[0].id, last_used=now())
        return bool(rows)

    async def _list_api_keys(self, _: Request) -> Response:
        own = ApiKeyRow(_OWN_ID, "local world", self._own[:_PREFIX_LENGTH], "", EPOCH)
        return JSONResponse({"api_keys": [_api_key_to_wire(row) for row in [own, *self._store.find(ApiKeyRow)]]})

    async def _create_api_key(self, request: Request) -> Response:
        """Make a key; its clear text exists in the answer only."""
        name, key = text(object_of(await request.body()), "name"), f"sk_live_{secrets.token_urlsafe(32)}"
        row = ApiKeyRow(str(uuid4()), name, key[:_PREFIX_LENGTH], _sha256(key), now())
        self._store.add(row)
        return JSONResponse({**_api_key_to_wire(row), "key": key}, status_code=201)

    async def _delete_api_key(self, request: Request) -> Response:
        key_id = request.path_params["key_id"]
        if key_id == _OWN_ID:
            raise Problem(403, "This key is the local world's own; it ends with the world")
        self._store.remove(ApiKeyRow, found(self._store.get(ApiKeyRow, key_id), "API key").id)
        return Response(status_code=204)

    async def _list_ssh_keys(self, _: Request) -> Response:
        return JSONResponse({"ssh_keys": [_ssh_key_to_wire(row) for row in self._store.find(SshKeyRow)]})

    async def _create_ssh_key(self, request: Request) -> Response:
        body = object_of(await request.body())
        name, public_key = text(body, "name"), text(body, "public_key").strip()
        row = SshKeyRow(str(uuid4()), name, public_key, _fingerprint(public_key), now())
        self._store.add(row)
        return JSONResponse(_ssh_key_to_wire(row), status_code=201)

    async def _delete_ssh_key(self, request: Request) -> Response:
        """Delete a key. Machines that were ordered with it keep it: no call changes the keys of an existing machine."""
        key_id = request.path_params["key_id"]
        self._store.remove(SshKeyRow, found(self._store.get(SshKeyRow, key_id), "SSH key").id)
        return Response(status_code=204)


class KeyCheck:
    """Admits only requests with a valid API key, except to the vendor's public paths."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer 401 without a valid key."""
        path: str = scope["path"]
        authorization = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        if path != _FREE and not path.startswith(f"{_FREE}/") and not self._keys.admit(authorization):
            await unauthorised().response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _fingerprint(public_key: str) -> str:
    try:
        digest = ssh_key_fingerprint(load_ssh_public_key(public_key.encode()), hashes.SHA256())
    except (ValueError, UnsupportedAlgorithm) as error:
        raise Problem(400, "public_key: a public key in OpenSSH's format is expected") from error
    return "SHA256:" + base64.b64encode(digest).decode().rstrip("=")


def _api_key_to_wire(row: ApiKeyRow) -> dict[str, object]:
    return {name: value for name, value in asdict(row).items() if name != "sha256"}


def _ssh_key_to_wire(row: SshKeyRow) -> dict[str, object]:
    return {"id": row.id, "name": row.name, "fingerprint": row.fingerprint, "created_at": row.created_at}


def check_proxy_token(store: Store, machine_id: str, token: str) -> None:
    """Let a request through to a machine.

    Raises:
        Problem: 401 without a live token, 403 with one of another machine.
    """
    rows = store.find(TokenRow, sha256=_sha256(token)) if token else []
    if not rows or rows[0].expires_at <= now():
        raise Problem(401, "Missing, expired or revoked proxy token")
    if rows[0].machine_id != machine_id:
        raise Problem(403, "This proxy token is for another machine")


class ProxyTokens:
    """Handlers of ``/proxy-tokens``: create and delete."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """The routes of ``/proxy-tokens`` and below."""
        return [
            Route("/proxy-tokens", self._create, methods=["POST"]),
            Route("/proxy-tokens/{token_id}", self._delete, methods=["DELETE"]),
        ]

    async def _create(self, request: Request) -> Response:
        """Make a token for every port of one machine; its clear text exists in the answer only."""
        machine_id, label, seconds = token_order(object_of(await request.body()))
        machine = self._store.get(MachineRow, machine_id)
        machine = found(machine if machine and machine.wanted != Wanted.DELETED else None, "Machine")
        request.scope["localcloud"]["machine"] = machine.names
        self._store.remove_expired_tokens(now())
        token = f"pt_{secrets.token_urlsafe(32)}"
        expires = now(plus_s=min(seconds, _LONGEST_S))
        row = TokenRow(str(uuid4()), machine_id, label, _sha256(token), expires)
        self._store.add(row)
        return JSONResponse({"id": row.id, "token": token, "expires_at": row.expires_at}, status_code=201)

    async def _delete(self, request: Request) -> Response:
        token_id = request.path_params["token_id"]
        self._store.remove(TokenRow, found(self._store.get(TokenRow, token_id), "Proxy token").id)
        return Response(status_code=204)
