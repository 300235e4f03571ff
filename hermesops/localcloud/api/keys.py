"""Handlers of ``/api-keys`` and ``/ssh-keys``."""

import base64
import hashlib
from uuid import uuid4

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_ssh_public_key
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api.problem import Problem, not_found
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.store.api_keys import OWN_ID, Keys
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ApiKeyRow, SshKeyRow


class KeysApi:
    """What the API says and does about keys.

    Args:
        store: What there is.
        keys: Who gets in.
    """

    def __init__(self, store: Store, keys: Keys) -> None:
        self._store = store
        self._keys = keys

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Route("/api-keys", self._list_api_keys, methods=["GET"]),
            Route("/api-keys", self._create_api_key, methods=["POST"]),
            Route("/api-keys/{key_id}", self._delete_api_key, methods=["DELETE"]),
            Route("/ssh-keys", self._list_ssh_keys, methods=["GET"]),
            Route("/ssh-keys", self._create_ssh_key, methods=["POST"]),
            Route("/ssh-keys/{key_id}", self._delete_ssh_key, methods=["DELETE"]),
        ]

    async def _list_api_keys(self, _: Request) -> Response:
        return JSONResponse({"api_keys": [_api_key_to_wire(row) for row in self._keys.rows()]})

    async def _create_api_key(self, request: Request) -> Response:
        row, key = self._keys.make(text(object_of(await request.body()), "name"))
        return JSONResponse({**_api_key_to_wire(row), "key": key}, status_code=201)

    async def _delete_api_key(self, request: Request) -> Response:
        key_id = request.path_params["key_id"]
        if key_id == OWN_ID:
            raise Problem(403, "This key is the local world's own; it ends with the world")
        if not self._keys.remove(key_id):
            raise not_found("API key")
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
        """Machines that were ordered with it keep it: no call changes the keys of one that exists."""
        key_id = request.path_params["key_id"]
        if self._store.get(SshKeyRow, key_id) is None:
            raise not_found("SSH key")
        self._store.remove(SshKeyRow, key_id)
        return Response(status_code=204)


def _fingerprint(public_key: str) -> str:
    try:
        load_ssh_public_key(public_key.encode())
        blob = base64.b64decode(public_key.split()[1], validate=True)
    except (ValueError, UnsupportedAlgorithm, IndexError) as error:
        raise Problem(400, "public_key: a public key in OpenSSH's format is expected") from error
    return "SHA256:" + base64.b64encode(hashlib.sha256(blob).digest()).decode().rstrip("=")


def _api_key_to_wire(row: ApiKeyRow) -> dict[str, object]:
    return {
        "id": row.id,
        "name": row.name,
        "key_prefix": row.key_prefix,
        "created_at": row.created_at,
        "last_used": row.last_used,
    }


def _ssh_key_to_wire(row: SshKeyRow) -> dict[str, object]:
    return {"id": row.id, "name": row.name, "fingerprint": row.fingerprint, "created_at": row.created_at}
