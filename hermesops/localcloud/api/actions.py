"""Handlers of what is done to one machine: power, size and image, accepted at once and done later; and its toolbox."""

from collections.abc import AsyncIterator

import httpcore
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hermesops.localcloud.api import wire
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, locked
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import call_of
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.fleet.disk_copies import Images
from hermesops.localcloud.fleet.machine_tasks import Fleet
from hermesops.localcloud.proxy.broker import Broker
from hermesops.localcloud.proxy.forward import Headers, forward
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Wanted

_NOT_FORWARDED = frozenset({b"authorization", b"x-proxy-token", b"cookie"})


class Actions:
    """What owners order to be done to machines.

    The status in an answer, and in what is read for a while after it, is the one of before: there is none for a reboot
    or a resize, and what was ready is called so while it is off.

    Args:
        machines: Finds them.
        store: What is wanted.
        fleet: Brings it about.
        images: Takes images of machines.
        faults: What goes wrong on order.
    """

    def __init__(self, machines: Machines, store: Store, fleet: Fleet, images: Images, faults: Faults) -> None:
        self._machines = machines
        self._store = store
        self._fleet = fleet
        self._images = images
        self._faults = faults

    def routes(self) -> list[Route]:
        """What it serves."""
        one = "/machines/{machine_id}"
        return [
            Route(f"{one}/reboot", self._reboot, methods=["POST"]),
            Route(f"{one}/start", self._start, methods=["POST"]),
            Route(f"{one}/stop", self._stop, methods=["POST"]),
            Route(f"{one}/resize", self._resize, methods=["POST"]),
            Route(f"{one}/image", self._image, methods=["POST"]),
        ]

    def accept(self, request: Request, row: MachineRow, **wanted: str | int) -> None:
        """Write down what is wanted of a machine and have it done, unless a fault has it forgotten."""
        if self._faults.take(FaultKind.IGNORED, row.names, **call_of(request.scope)):
            return
        self._store.update(MachineRow, row.id, **wanted)
        self._fleet.poke(row.id)

    async def _reboot(self, request: Request) -> Response:
        row = self._ready(request)
        self.accept(request, row, reboot=True)
        return JSONResponse({"action": "reboot", "status": row.status}, status_code=202)

    async def _start(self, request: Request) -> Response:
        row = self._machines.find(request)
        self.accept(request, row, wanted=Wanted.RUNNING, reboot=False)
        return JSONResponse({"action": "start", "status": row.status}, status_code=202)

    async def _stop(self, request: Request) -> Response:
        row = self._machines.find(request)
        self.accept(request, row, wanted=Wanted.STOPPED, reboot=False)
        return JSONResponse({"action": "stop", "status": row.status}, status_code=202)

    async def _resize(self, request: Request) -> Response:
        """Another server type. Source: published SDK 2026.3.6; that disks never shrink is the data centre's rule."""
        row = self._machines.find(request)
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
        row = self._machines.find(request)
        if row.status != MachineStatus.READY:
            raise Problem(400, f"Machine must be ready, it is {row.status}")
        return row


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
        await forward(scope, receive, send, self._ask, drop=_NOT_FORWARDED)

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
