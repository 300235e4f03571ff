"""Handlers of ``/images`` and ``/machines/{id}/backups``, over the world's copies."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.errors import RefusedError
from hermesops.localcloud.api import wire
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, found, locked
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.fleet.disk_copies import Backups, Images
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import BackupRow, BackupStatus, ImageRow, MachineRow


class ImagesApi:
    """Handlers of ``/images``: list, show and delete."""

    def __init__(self, store: Store, images: Images) -> None:
        self._store = store
        self._images = images

    def routes(self) -> list[Route]:
        """The routes of ``/images`` and below."""
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
        return found(self._store.get(ImageRow, request.path_params["image_id"]), "Image")


class BackupsApi:
    """Handlers of the backups of a machine."""

    def __init__(self, machines: Machines, store: Store, backups: Backups) -> None:
        self._machines = machines
        self._store = store
        self._backups = backups

    def routes(self) -> list[Route]:
        """The routes of ``/machines/{machine_id}/backups`` and below."""
        all_of = "/machines/{machine_id}/backups"
        return [
            Route(all_of, self._list, methods=["GET"]),
            Route(all_of, self._create, methods=["POST"]),
            Route(f"{all_of}/enable", self._enable, methods=["POST"]),
            Route(f"{all_of}/disable", self._disable, methods=["POST"]),
            Route(f"{all_of}/{{backup_id}}/restore", self._restore, methods=["POST"]),
            Route(f"{all_of}/{{backup_id}}", self._delete, methods=["DELETE"]),
        ]

    async def _list(self, request: Request) -> Response:
        machine = self._machines.find(request)
        backups = [wire.backup_to_wire(row) for row in self._backups.of(machine)]
        return JSONResponse({"backups": backups, "backups_enabled": machine.backups})

    async def _create(self, request: Request) -> Response:
        machine = self._machines.find(request)
        description = text(object_of(await request.body()), "description", "")
        if not machine.backups:
            raise Problem(400, "Backups are not enabled for this machine")
        if not machine.made:
            raise locked()
        row = self._backups.take(machine, description)
        return JSONResponse({"backup_id": row.id, "status": BackupStatus.CREATING}, status_code=202)

    async def _enable(self, request: Request) -> Response:
        machine = self._machines.find(request)
        self._store.update(MachineRow, machine.id, backups=True)
        return JSONResponse({"action": "enable_backups", "status": "success"})

    async def _disable(self, request: Request) -> Response:
        machine = self._machines.find(request)
        self._store.update(MachineRow, machine.id, backups=False)
        for row in self._backups.of(machine):
            await self._backups.delete(row)
        return JSONResponse({"action": "disable_backups", "status": "success"})

    async def _restore(self, request: Request) -> Response:
        machine = self._machines.find(request)
        row = self._find(request, machine)
        if row.status != BackupStatus.AVAILABLE:
            raise Problem(409, f"Backup is {row.status}")
        self._machines.accept(request, machine, restore=row.id)
        return JSONResponse({"action": "restore", "status": machine.status}, status_code=202)

    async def _delete(self, request: Request) -> Response:
        machine = self._machines.find(request)
        row = self._find(request, machine)
        if machine.restore == row.id:
            raise locked()
        await self._backups.delete(row)
        return Response(status_code=204)

    def _find(self, request: Request, machine: MachineRow) -> BackupRow:
        row = self._store.get(BackupRow, request.path_params["backup_id"])
        return found(row if row and row.machine_id == machine.id else None, "Backup")
