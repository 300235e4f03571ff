"""Handlers of what is done to one machine: power, size, image. Accepted at once, brought about later."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api import wire
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, locked
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.middleware import call_of
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import SERVER_TYPES
from hermesops.localcloud.fleet.images import Images
from hermesops.localcloud.fleet.machine_tasks import Fleet
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import MachineRow, MachineStatus, Wanted


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
