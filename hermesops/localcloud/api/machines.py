"""Handlers of ``/machines``: store the wanted state, wake the machine's task, answer in the vendor's shape.

A change of a machine is accepted at once and carried out later.
"""

import asyncio
import functools
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import replace
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hermesops.base.waiting import pause
from hermesops.localcloud.api import wire
from hermesops.localcloud.api.keys import new_key_pair
from hermesops.localcloud.api.problem import (
    Problem,
    disk_too_small,
    found,
    location_disabled,
    locked,
    not_found,
    payment_required,
    sold_out,
)
from hermesops.localcloud.api.requests import MachineOrder, machine_order, object_of, text
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import Call, call_of
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.fleet.disk_copies import Images
from hermesops.localcloud.fleet.machine_tasks import Fleet
from hermesops.localcloud.proxy.forward import Ask, forward
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import (
    ImageRow,
    ImageStatus,
    MachineRow,
    MachineStatus,
    SshKeyRow,
    TokenRow,
    Wanted,
    now,
)

_EVENTS_EVERY_S = 0.05
_PING_EVERY_S = 15.0
_LONGEST_STREAM_S = 600.0
_FINAL = {MachineStatus.READY, MachineStatus.ERROR, MachineStatus.STOPPED}
_NOT_FORWARDED = frozenset({b"authorization", b"x-proxy-token", b"cookie"})
_REMOVAL_TIMEOUT_S = 30.0
_REFUSALS: Mapping[FaultKind, Callable[[], Problem]] = {
    FaultKind.PAYMENT_REQUIRED: payment_required,
    FaultKind.UNPROCESSABLE: disk_too_small,
    FaultKind.LOCATION_DISABLED: location_disabled,
    FaultKind.SOLD_OUT: sold_out,
}
_PRETENCES = (FaultKind.READY_EARLY, FaultKind.ERROR_THEN_READY)


class Machines:
    """Handlers of ``/machines``; ``port`` is the API's own, for the names in ``urls``."""

    def __init__(self, store: Store, fleet: Fleet, images: Images, faults: Faults, port: int) -> None:
        self._store = store
        self._fleet = fleet
        self._images = images
        self._faults = faults
        self._port = port
        self._ordering = asyncio.Lock()
        self._ordered: MachineRow | None = None
        self._deleted: MachineRow | None = None

    def routes(self) -> list[Route]:
        """The routes of ``/machines`` and below."""
        path = "/machines/{machine_id}"
        return [
            Route("/machines", self._list, methods=["GET"]),
            Route("/machines", self._create, methods=["POST"]),
            Route(path, self._show, methods=["GET"]),
            Route(path, self._delete, methods=["DELETE"]),
            Route(f"{path}/status/stream", self._stream, methods=["GET"]),
            Route(f"{path}/reboot", self._reboot, methods=["POST"]),
            Route(f"{path}/start", self._start, methods=["POST"]),
            Route(f"{path}/stop", self._stop, methods=["POST"]),
            Route(f"{path}/resize", self._resize, methods=["POST"]),
            Route(f"{path}/image", self._image, methods=["POST"]),
            Route(f"{path}/exec", self._exec, methods=["POST"]),
            Route(f"{path}/toolbox/{{call:path}}", self._toolbox, methods=["GET", "POST", "PUT", "DELETE"]),
        ]

    def find(self, request: Request) -> MachineRow:
        """The machine that a path names.

        Raises:
            Problem: 404.
        """
        row = self._store.get(MachineRow, request.path_params["machine_id"])
        if row is None or row.wanted == Wanted.DELETED:
            raise not_found("Machine")
        _concerns(request, row)
        if self._faults.take(FaultKind.NOT_FOUND, row.names, **call_of(request.scope)):
            raise not_found("Machine")
        return row

    def _shown(self, request: Request, row: MachineRow) -> dict[str, object]:
        call = call_of(request.scope)
        if row.status_before and self._faults.take(FaultKind.STALE_STATUS, row.names, **call):
            row = replace(row, status=row.status_before)
        shown = wire.machine_to_wire(row, self._fleet.address(row), self._port)
        return wire.older_shape(shown) if self._faults.take(FaultKind.OLDER_SHAPE, row.names, **call) else shown

    async def _list(self, request: Request) -> Response:
        rows = self._store.machines()
        if self._faults.take(FaultKind.STALE_LIST, **call_of(request.scope)):
            # The list of before the last order or deletion.
            ordered = self._ordered.id if self._ordered else ""
            rows = [*(row for row in rows if row.id != ordered), *([self._deleted] if self._deleted else [])]
        return JSONResponse({"machines": [self._shown(request, row) for row in rows]})

    async def _show(self, request: Request) -> Response:
        return JSONResponse(self._shown(request, self.find(request)))

    async def _create(self, request: Request) -> Response:
        order = machine_order(object_of(await request.body()))
        self._refuse(order, call_of(request.scope))
        async with self._ordering:  # two orders must not both get the last place
            free = await self._fleet.capacity()
            if free.machines < 1:
                raise Problem(422, f"no room for another machine on this computer: {free.figures}")
            row = self._record(order, call_of(request.scope))
            self._ordered, self._deleted = row, None
        _concerns(request, row)
        self._fleet.ordered(row)
        return JSONResponse(self._shown(request, row), status_code=202)

    def _refuse(self, order: MachineOrder, call: Call) -> None:
        for kind, problem in _REFUSALS.items():
            if self._faults.take(kind, (order.name,), **call):
                raise problem()
        if any(self._store.get(SshKeyRow, key_id) is None for key_id in order.ssh_key_ids):
            raise not_found("SSH key")
        if order.image_id is None:
            return
        image = found(self._store.get(ImageRow, order.image_id), "Image")
        if image.status != ImageStatus.READY or not image.provider_image_id:
            raise Problem(422, f"image is {image.status}")
        if image.disk_size_gb > order.server_type.disk_gb:
            raise disk_too_small()

    def _record(self, order: MachineOrder, call: Call) -> MachineRow:
        machine_id, slug, timestamp = str(uuid4()), f"m-{secrets.token_hex(4)}", now()
        private, public = new_key_pair(f"justavps-{slug}")
        ssh_keys = [self._store.get(SshKeyRow, key_id) for key_id in order.ssh_key_ids]
        pretences = (kind for kind in _PRETENCES if self._faults.take(kind, (order.name,), **call))
        row = MachineRow(
            id=machine_id,
            number=self._store.free_number(),
            slug=slug,
            name=order.name or slug,
            server_type=order.server_type.name,
            region=order.region,
            image_id=order.image_id,
            created_at=timestamp,
            private_key=private,
            public_key=public,
            daemon_token=secrets.token_urlsafe(32),
            machine_token=secrets.token_urlsafe(32),
            env=json.dumps(dict(order.env)),
            init_script=order.init_script,
            backups=order.backups,
            stage_at=timestamp,
            pretends=next(pretences, ""),
            ssh_keys=json.dumps([key.public_key for key in ssh_keys if key]),
        )
        self._store.add(row)
        return row

    async def _delete(self, request: Request) -> Response:
        row = self.find(request)
        for token in self._store.find(TokenRow, machine_id=row.id):
            self._store.remove(TokenRow, token.id)
        self._ordered, self._deleted = None, row
        self._store.update(MachineRow, row.id, wanted=Wanted.DELETED, reboot=False)
        self._fleet.wake(row.id)
        await self._fleet.gone(row.id, _REMOVAL_TIMEOUT_S)
        return Response(status_code=204)

    async def _stream(self, request: Request) -> Response:
        row = self.find(request)
        headers = {"cache-control": "no-store"}
        return StreamingResponse(self._events(row.id), media_type="text/event-stream", headers=headers)

    async def _events(self, machine_id: str) -> AsyncIterator[str]:
        """Events ``status``, ``stage``, ``ping``, at last ``done`` or ``error``; ends by itself after ten minutes.

        Source:
            Event names and the limit: published SDK 2026.3.6. It does not say what the data hold.
        """
        started = pinged = time.monotonic()
        sent = ("", "")
        while (timestamp := time.monotonic()) - started < _LONGEST_STREAM_S:
            row = self._store.get(MachineRow, machine_id)
            if row is None or row.wanted == Wanted.DELETED:
                yield _event("error", {"status": MachineStatus.DELETED, "message": "the machine was deleted"})
                return
            status = wire.shown_status(row)
            if row.stage != sent[1]:
                yield _event("stage", {"stage": row.stage, "timestamp": row.stage_at or row.created_at})
            if status != sent[0]:
                yield _event("status", {"status": status})
            sent = (status, row.stage)
            if status in _FINAL:
                yield _event("done", {"status": status})
                return
            if timestamp - pinged >= _PING_EVERY_S:
                pinged = timestamp
                yield _event("ping", {})
            await pause(_EVENTS_EVERY_S)

    # What is done to one machine

    def accept(self, request: Request, row: MachineRow, **changes: str | int) -> None:
        """Store a machine's wanted state and wake its task, unless a fault drops it."""
        if self._faults.take(FaultKind.IGNORED, row.names, **call_of(request.scope)):
            return
        self._store.update(MachineRow, row.id, **changes)
        self._fleet.wake(row.id)

    async def _reboot(self, request: Request) -> Response:
        row = self._ready(request)
        self.accept(request, row, reboot=True)
        return JSONResponse({"action": "reboot", "status": row.status}, status_code=202)

    async def _start(self, request: Request) -> Response:
        row = self.find(request)
        self.accept(request, row, wanted=Wanted.RUNNING, reboot=False)
        return JSONResponse({"action": "start", "status": row.status}, status_code=202)

    async def _stop(self, request: Request) -> Response:
        row = self.find(request)
        self.accept(request, row, wanted=Wanted.STOPPED, reboot=False)
        return JSONResponse({"action": "stop", "status": row.status}, status_code=202)

    async def _resize(self, request: Request) -> Response:
        """Change the server type. Source: published SDK 2026.3.6; that disks never shrink is the data centre's rule."""
        row = self.find(request)
        name = text(object_of(await request.body()), "server_type")
        old, new = SERVER_TYPES[row.server_type], SERVER_TYPES.get(name)
        if new is None:
            raise Problem(400, f"unknown server type {name!r}")
        if new == old:
            raise Problem(400, f"Machine is a {name} already")
        if new.disk_gb < old.disk_gb:
            raise Problem(400, f"the disk of {name} is smaller than the machine's: disks cannot shrink")
        if not row.made or row.resize or row.restore:
            raise locked()
        self.accept(request, row, resize=name)
        answer = {"action": "resize", "old_type": old.name, "new_type": new.name, "status": row.status}
        return JSONResponse(answer, status_code=202)

    async def _image(self, request: Request) -> Response:
        row = self._ready(request)
        name = text(object_of(await request.body()), "name")
        return JSONResponse(wire.image_to_wire(self._images.take(row, name)), status_code=202)

    def _ready(self, request: Request) -> MachineRow:
        row = self.find(request)
        if row.status != MachineStatus.READY:
            raise Problem(400, f"Machine must be ready, it is {row.status}")
        return row

    # Its toolbox

    async def _exec(self, request: Request) -> Response:
        return self._forwarded(request, b"/toolbox/process/execute")

    async def _toolbox(self, request: Request) -> Response:
        raw: bytes = request.scope.get("raw_path") or request.url.path.encode()
        query: bytes = request.scope["query_string"]
        return self._forwarded(request, b"/toolbox/" + raw.split(b"/toolbox/", 1)[1] + (b"?" + query if query else b""))

    def _forwarded(self, request: Request, target: bytes) -> Response:
        row = self.find(request)
        return _Forwarded(functools.partial(self._fleet.broker.ask_daemon, row.id, request.method, target))


class _Forwarded(Response):
    """An answer of a machine's daemon, streamed to the caller."""

    def __init__(self, ask: Ask) -> None:
        super().__init__()
        self._ask = ask

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Forward the request and stream the answer back."""
        await forward(scope, receive, send, self._ask, drop=_NOT_FORWARDED)


def _event(name: str, data: dict[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


def _concerns(request: Request, row: MachineRow) -> None:
    """Note the machine of this call for the fault middlewares around it."""
    request.scope["localcloud"]["machine"] = row.names
