"""Handlers of ``/machines``: write down what is wanted, wake the machine's task, answer in the vendor's shape."""

import asyncio
import json
import secrets
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.localcloud.api import wire
from hermesops.localcloud.api.keys import new_key_pair
from hermesops.localcloud.api.problem import (
    Problem,
    disk_too_small,
    location_disabled,
    not_found,
    payment_required,
    sold_out,
)
from hermesops.localcloud.api.requests import MachineOrder, machine_order, object_of
from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import Call, call_of
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.machine_tasks import Fleet
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
from hermesops.waiting import pause

_LOOK_EVERY_S = 0.05
_PING_EVERY_S = 15.0
_LONGEST_S = 600.0
_FINAL = {MachineStatus.READY, MachineStatus.ERROR, MachineStatus.STOPPED}


async def tell(look: Callable[[], MachineRow | None]) -> AsyncIterator[str]:
    """Events ``status``, ``stage``, ``ping``, at last ``done`` or ``error``; ends by itself after ten minutes.

    Args:
        look: Reads the machine's row; ``None`` once it is gone.

    Source:
        Event names and the limit: published SDK 2026.3.6. It does not say what the data hold.
    """
    started = pinged = time.monotonic()
    said = ("", "")
    while (moment := time.monotonic()) - started < _LONGEST_S:
        row = look()
        if row is None:
            yield _event("error", {"status": MachineStatus.DELETED, "message": "the machine was deleted"})
            return
        status = shown_status(row)
        if row.stage != said[1]:
            yield _event("stage", {"stage": row.stage, "timestamp": row.stage_at or row.created_at})
        if status != said[0]:
            yield _event("status", {"status": status})
        said = (status, row.stage)
        if status in _FINAL:
            yield _event("done", {"status": status})
            return
        if moment - pinged >= _PING_EVERY_S:
            pinged = moment
            yield _event("ping", {})
        await pause(_LOOK_EVERY_S)


def _event(name: str, data: dict[str, str]) -> str:
    return f"event: {name}\ndata: {json.dumps(data)}\n\n"


_REMOVAL_PATIENCE_S = 30.0
_REFUSALS = {
    FaultKind.PAYMENT_REQUIRED: payment_required,
    FaultKind.UNPROCESSABLE: disk_too_small,
    FaultKind.LOCATION_DISABLED: location_disabled,
    FaultKind.SOLD_OUT: sold_out,
}
_PRETENCES = (FaultKind.READY_EARLY, FaultKind.ERROR_THEN_READY)


class Machines:
    """What the API says and does about machines.

    Args:
        store: What there is.
        fleet: Brings it about.
        faults: What goes wrong on order.
        port: The API's own port, for the names in ``urls``.
    """

    def __init__(self, store: Store, fleet: Fleet, faults: Faults, port: int) -> None:
        self._store = store
        self._fleet = fleet
        self._faults = faults
        self._port = port
        self._ordering = asyncio.Lock()
        self._ordered: MachineRow | None = None
        self._deleted: MachineRow | None = None

    def routes(self) -> list[Route]:
        """What it serves."""
        one = "/machines/{machine_id}"
        return [
            Route("/machines", self._list, methods=["GET"]),
            Route("/machines", self._create, methods=["POST"]),
            Route(one, self._show, methods=["GET"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/status/stream", self._stream, methods=["GET"]),
        ]

    def find(self, request: Request) -> MachineRow:
        """The machine a path names; notes for the faults whose call this is.

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
            rows = self._before(rows)
        return JSONResponse({"machines": [self._shown(request, row) for row in rows]})

    def _before(self, rows: list[MachineRow]) -> list[MachineRow]:
        """The machines there were before the last order or deletion."""
        ordered = self._ordered.id if self._ordered else ""
        return [*(row for row in rows if row.id != ordered), *([self._deleted] if self._deleted else [])]

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
        image = self._store.get(ImageRow, order.image_id)
        if image is None:
            raise not_found("Image")
        if image.status != ImageStatus.READY or not image.provider_image_id:
            raise Problem(422, f"image is {image.status}")
        if image.disk_size_gb > order.server_type.disk_gb:
            raise disk_too_small()

    def _record(self, order: MachineOrder, call: Call) -> MachineRow:
        machine_id, slug, moment = str(uuid4()), f"m-{secrets.token_hex(4)}", now()
        private, public = new_key_pair(f"justavps-{slug}")
        pretences = (kind for kind in _PRETENCES if self._faults.take(kind, (order.name,), **call))
        row = MachineRow(
            id=machine_id,
            number=self._store.free_number(),
            slug=slug,
            name=order.name or slug,
            server_type=order.server_type.name,
            region=order.region,
            image_id=order.image_id,
            created_at=moment,
            private_key=private,
            public_key=public,
            daemon_token=secrets.token_urlsafe(32),
            machine_token=secrets.token_urlsafe(32),
            env=json.dumps(dict(order.env)),
            init_script=order.init_script,
            backups=order.backups,
            stage_at=moment,
            pretends=next(pretences, ""),
            ssh_keys=json.dumps(self._public_keys(order)),
        )
        self._store.add(row)
        return row

    def _public_keys(self, order: MachineOrder) -> list[str]:
        keys = [self._store.get(SshKeyRow, key_id) for key_id in order.ssh_key_ids]
        return [key.public_key for key in keys if key]

    async def _delete(self, request: Request) -> Response:
        row = self.find(request)
        for token in self._store.find(TokenRow, machine_id=row.id):
            self._store.remove(TokenRow, token.id)
        self._ordered, self._deleted = None, row
        self._store.update(MachineRow, row.id, wanted=Wanted.DELETED, reboot=False)
        self._fleet.poke(row.id)
        await self._fleet.gone(row.id, _REMOVAL_PATIENCE_S)
        return Response(status_code=204)

    async def _stream(self, request: Request) -> Response:
        row = self.find(request)

        def look() -> MachineRow | None:
            seen = self._store.get(MachineRow, row.id)
            return None if seen is None or seen.wanted == Wanted.DELETED else seen

        return StreamingResponse(tell(look), media_type="text/event-stream", headers={"cache-control": "no-store"})


def _concerns(request: Request, row: MachineRow) -> None:
    """Tell the faults around this call which machine it is about."""
    request.scope["localcloud"]["machine"] = row.names
