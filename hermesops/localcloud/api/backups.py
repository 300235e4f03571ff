"""Handlers of ``/machines/{id}/backups``."""

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api import wire
from hermesops.localcloud.api.actions import Actions
from hermesops.localcloud.api.machines import Machines
from hermesops.localcloud.api.problem import Problem, locked, not_found
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.fleet.backups import Backups
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import BackupRow, BackupStatus, MachineRow


class BackupsApi:
    """What the API says and does about the vendor's backups.

    Args:
        machines: Finds them.
        actions: Has a restore brought about.
        store: What there is.
        backups: Takes and deletes backups.
    """

    def __init__(self, machines: Machines, actions: Actions, store: Store, backups: Backups) -> None:
        self._machines = machines
        self._actions = actions
        self._store = store
        self._backups = backups

    def routes(self) -> list[Route]:
        """What it serves."""
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
        self._actions.accept(request, machine, restore=row.id)
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
        if row is None or row.machine_id != machine.id:
            raise not_found("Backup")
        return row
