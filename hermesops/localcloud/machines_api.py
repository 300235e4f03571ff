"""Handlers of ``/machines``: write down what is wanted, poke the fleet, answer in the vendor's shape."""

import asyncio
import json
import secrets
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from hermesops.localcloud import status_stream, wire
from hermesops.localcloud.faults import FaultKind, Faults
from hermesops.localcloud.fleet import Fleet
from hermesops.localcloud.images import Images
from hermesops.localcloud.machine_keys import new_key_pair
from hermesops.localcloud.moment import now
from hermesops.localcloud.orders import MachineOrder, machine_order, object_of, text
from hermesops.localcloud.problem import Problem, disk_too_small, not_found, payment_required
from hermesops.localcloud.rows import ImageRow, ImageStatus, MachineRow, MachineStatus, TokenRow, Wanted
from hermesops.localcloud.store import Store

_REMOVAL_PATIENCE_S = 30.0


class Machines:
    """What the API says and does about machines.

    Args:
        store: What there is.
        fleet: Brings it about.
        images: Takes images of machines.
        faults: What goes wrong on order.
        port: The API's own port, for the names in ``urls``.
    """

    def __init__(self, store: Store, fleet: Fleet, images: Images, faults: Faults, port: int) -> None:
        self._store = store
        self._fleet = fleet
        self._images = images
        self._faults = faults
        self._port = port
        self._ordering = asyncio.Lock()

    def routes(self) -> list[Route]:
        """What it serves."""
        one = "/machines/{machine_id}"
        return [
            Route("/machines", self._list, methods=["GET"]),
            Route("/machines", self._create, methods=["POST"]),
            Route(one, self._show, methods=["GET"]),
            Route(one, self._delete, methods=["DELETE"]),
            Route(f"{one}/reboot", self._reboot, methods=["POST"]),
            Route(f"{one}/start", self._start, methods=["POST"]),
            Route(f"{one}/stop", self._stop, methods=["POST"]),
            Route(f"{one}/image", self._image, methods=["POST"]),
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
        if self._faults.take(FaultKind.NOT_FOUND, (row.id, row.name, row.slug), method=request.method):
            raise not_found("Machine")
        return row

    def _answer(self, row: MachineRow, status: int = 200) -> JSONResponse:
        return JSONResponse(wire.machine_to_wire(row, self._fleet.address(row), self._port), status_code=status)

    async def _list(self, _: Request) -> Response:
        rows = self._store.machines()
        return JSONResponse(
            {"machines": [wire.machine_to_wire(row, self._fleet.address(row), self._port) for row in rows]}
        )

    async def _show(self, request: Request) -> Response:
        return self._answer(self.find(request))

    async def _create(self, request: Request) -> Response:
        order = machine_order(object_of(await request.body()))
        self._refuse(order)
        async with self._ordering:  # two orders must not both get the last place
            room, figures = await self._fleet.room()
            if room < 1:
                raise Problem(422, f"no room for another machine on this computer: {figures}")
            row = self._record(order)
        _concerns(request, row)
        self._fleet.poke(row.id)
        return self._answer(row, 202)

    def _refuse(self, order: MachineOrder) -> None:
        if self._faults.take(FaultKind.PAYMENT_REQUIRED, (order.name,)):
            raise payment_required()
        if self._faults.take(FaultKind.UNPROCESSABLE, (order.name,)):
            raise disk_too_small()
        if order.image_id is None:
            return
        image = self._store.get(ImageRow, order.image_id)
        if image is None:
            raise not_found("Image")
        if image.status != ImageStatus.READY:
            raise Problem(422, f"image is {image.status}")
        if image.disk_size_gb > order.server_type.disk_gb:
            raise disk_too_small()

    def _record(self, order: MachineOrder) -> MachineRow:
        machine_id, slug, moment = str(uuid4()), f"m-{secrets.token_hex(4)}", now()
        private, public = new_key_pair(f"justavps-{slug}")
        called = (order.name,)
        pretends = ""
        if self._faults.take(FaultKind.READY_EARLY, called):
            pretends = wire.EARLY
        elif self._faults.take(FaultKind.ERROR_THEN_READY, called):
            pretends = wire.LATE
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
            pretends=pretends,
        )
        self._store.add(row)
        return row

    async def _delete(self, request: Request) -> Response:
        row = self.find(request)
        for token in self._store.find(TokenRow, machine_id=row.id):
            self._store.remove(TokenRow, token.id)
        self._want(row, Wanted.DELETED)
        await self._fleet.gone(row.id, _REMOVAL_PATIENCE_S)
        return Response(status_code=204)

    async def _reboot(self, request: Request) -> Response:
        row = self._running(request)
        self._store.update(MachineRow, row.id, reboot=True)
        self._fleet.poke(row.id)
        return JSONResponse({"action": "reboot", "status": row.status}, status_code=202)

    async def _start(self, request: Request) -> Response:
        row = self.find(request)
        self._want(row, Wanted.RUNNING)
        return JSONResponse({"action": "start", "status": row.status}, status_code=202)

    async def _stop(self, request: Request) -> Response:
        row = self.find(request)
        self._want(row, Wanted.STOPPED)
        return JSONResponse({"action": "stop", "status": row.status}, status_code=202)

    async def _image(self, request: Request) -> Response:
        row = self._running(request)
        name = text(object_of(await request.body()), "name")
        return JSONResponse(wire.image_to_wire(self._images.take(row, name)), status_code=202)

    async def _stream(self, request: Request) -> Response:
        row = self.find(request)

        def look() -> MachineRow | None:
            seen = self._store.get(MachineRow, row.id)
            return None if seen is None or seen.wanted == Wanted.DELETED else seen

        return StreamingResponse(
            status_stream.tell(look), media_type="text/event-stream", headers={"cache-control": "no-store"}
        )

    def _running(self, request: Request) -> MachineRow:
        row = self.find(request)
        if row.status != MachineStatus.READY:
            raise Problem(400, f"Machine must be ready, it is {row.status}")
        return row

    def _want(self, row: MachineRow, wanted: Wanted) -> None:
        self._store.update(MachineRow, row.id, wanted=wanted, reboot=False)
        self._fleet.poke(row.id)


def _concerns(request: Request, row: MachineRow) -> None:
    """Tell the faults around this call which machine it is about."""
    request.scope["localcloud"]["machine"] = (row.id, row.name, row.slug)
