"""The vendor's API below ``/api/v1``: images, proxy tokens, toolbox; and who may call any of it."""

from collections.abc import AsyncIterator

import httpcore
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from hermesops.errors import RefusedError
from hermesops.localcloud.api import wire
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, not_found, unauthorised
from hermesops.localcloud.api.requests import object_of, token_order
from hermesops.localcloud.fleet.images import Images
from hermesops.localcloud.proxy import tokens
from hermesops.localcloud.proxy.broker import Broker
from hermesops.localcloud.proxy.forward import Headers, forward
from hermesops.localcloud.store.api_keys import Keys
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import ImageRow, MachineRow, TokenRow, Wanted

PREFIX = "/api/v1"
_FREE = frozenset({f"{PREFIX}/server-types", f"{PREFIX}/openapi.json"})
_FREE_BELOW = f"{PREFIX}/server-types/"
_OURS = frozenset({b"authorization", b"x-proxy-token", b"cookie"})


class KeyCheck:
    """Lets only callers with a good API key through, except to what the vendor shows everybody."""

    def __init__(self, app: ASGIApp, keys: Keys) -> None:
        self._app = app
        self._keys = keys

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one request, or answer 401."""
        path: str = scope["path"]
        given = dict(scope["headers"]).get(b"authorization", b"").decode("latin-1")
        if path not in _FREE and not path.startswith(_FREE_BELOW) and not self._keys.open(given):
            await unauthorised().response()(scope, receive, send)
            return
        await self._app(scope, receive, send)


class ImagesApi:
    """Handlers of ``/images``."""

    def __init__(self, store: Store, images: Images) -> None:
        self._store = store
        self._images = images

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Route("/images", self._list),
            Route("/images/{image_id}", self._show, methods=["GET"]),
            Route("/images/{image_id}", self._delete, methods=["DELETE"]),
        ]

    async def _list(self, _: Request) -> Response:
        return JSONResponse({"images": [wire.image_to_wire(row) for row in self._store.find(ImageRow)]})

    async def _show(self, request: Request) -> Response:
        return JSONResponse(wire.image_to_wire(self._find(request)))

    async def _delete(self, request: Request) -> Response:
        try:
            await self._images.delete(self._find(request))
        except RefusedError as error:
            raise Problem(409, error.message) from error
        return Response(status_code=204)

    def _find(self, request: Request) -> ImageRow:
        row = self._store.get(ImageRow, request.path_params["image_id"])
        if row is None:
            raise not_found("Image")
        return row


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
        tokens.forget_expired(self._store)
        row, token = tokens.mint(self._store, machine_id, label, seconds)
        return JSONResponse({"id": row.id, "token": token, "expires_at": row.expires_at}, status_code=201)

    async def _delete(self, request: Request) -> Response:
        token_id = request.path_params["token_id"]
        if self._store.get(TokenRow, token_id) is None:
            raise not_found("Proxy token")
        self._store.remove(TokenRow, token_id)
        return Response(status_code=204)


class _Forwarding(Response):
    """An answer that is somebody else's, passed on as it comes."""

    def __init__(self, broker: Broker, machine_id: str, target: bytes, request: Request) -> None:
        super().__init__()
        self._broker = broker
        self._machine_id = machine_id
        self._target = target
        self._method = request.method

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and the answer back."""
        await forward(scope, receive, send, self._ask, drop=_OURS)

    async def _ask(self, headers: Headers, body: AsyncIterator[bytes] | None) -> httpcore.Response:
        return await self._broker.ask_daemon(self._machine_id, self._method, self._target, headers, body)


class Toolbox:
    """Handlers of a machine's toolbox: everything goes to its daemon and comes back unchanged."""

    def __init__(self, machines: Machines, broker: Broker) -> None:
        self._machines = machines
        self._broker = broker

    def routes(self) -> list[Route]:
        """What it serves."""
        methods = ["GET", "POST", "PUT", "DELETE"]
        return [
            Route("/machines/{machine_id}/exec", self._execute, methods=["POST"]),
            Route("/machines/{machine_id}/toolbox/{call:path}", self._call, methods=methods),
        ]

    async def _execute(self, request: Request) -> Response:
        return _Forwarding(self._broker, self._machines.find(request).id, b"/toolbox/process/execute", request)

    async def _call(self, request: Request) -> Response:
        row = self._machines.find(request)
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        target = b"/toolbox/" + raw.split(b"/toolbox/", 1)[1]
        if query := request.scope["query_string"]:
            target += b"?" + query
        return _Forwarding(self._broker, row.id, target, request)
