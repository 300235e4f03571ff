"""Handlers of ``/local``, the calls of the world's own command line; the vendor has nothing like it.

Same key as the API. It must not show secrets.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.errors import HermesError, UsageError
from hermesops.localcloud.api.problem import Problem, found
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.faults import date_shift
from hermesops.localcloud.faults.rules import FaultOrder, Faults
from hermesops.localcloud.fleet.machine_tasks import Fleet
from hermesops.localcloud.model_router.router import ModelLog
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import FaultRow, ImageRow, MachineRow, Wanted, WebhookRow
from hermesops.localcloud.webhooks import Webhooks
from hermesops.localcloud.world.object_store import ObjectStore

PREFIX = "/local"


@dataclass(frozen=True)
class Control:
    """Handlers of ``/local``; ``facts`` says where the world is reachable, as in ``world.json``."""

    store: Store
    fleet: Fleet
    faults: Faults
    model_log: ModelLog
    webhooks: Webhooks
    facts: Mapping[str, object]
    objects: ObjectStore
    date_shift: Path

    def routes(self) -> list[Route]:
        """The routes of ``/local``, relative to it."""
        return [
            Route("/status", self._status, methods=["GET"]),
            Route("/faults", self._list_faults, methods=["GET"]),
            Route("/faults", self._set_fault, methods=["POST"]),
            Route("/faults", self._clear_faults, methods=["DELETE"]),
            Route("/webhook-tests", self._test_webhook, methods=["POST"]),
            Route("/model-requests", self._model_requests, methods=["GET"]),
            Route("/object-store", self._start_objects, methods=["POST"]),
        ]

    async def _status(self, _: Request) -> Response:
        free = await self.fleet.capacity()
        return JSONResponse(
            {
                **self.facts,
                "object_store": asdict(self.objects.facts) if self.objects.facts else None,
                "machines": [self._machine(row) for row in self.store.machines()],
                "removing": [row.id for row in self.store.find(MachineRow, wanted=Wanted.DELETED)],
                "unsettled": self.fleet.unsettled(),
                "images": [
                    {"id": row.id, "name": row.name, "status": row.status, "bytes_used": row.bytes_used}
                    for row in self.store.find(ImageRow)
                ],
                "room": free.machines,
                "figures": free.figures,
                "unlimited": list(self.fleet.unlimited),
            }
        )

    def _machine(self, row: MachineRow) -> dict[str, object]:
        address = self.fleet.address(row)
        return {
            "id": row.id,
            "name": row.name,
            "slug": row.slug,
            "status": shown_status(row),
            "message": row.message,
            "image_id": row.image_id,
            "ip": str(address) if address else None,
        }

    async def _list_faults(self, _: Request) -> Response:
        return JSONResponse({"faults": [fault_to_wire(row) for row in self.faults.waiting()]})

    async def _set_fault(self, request: Request) -> Response:
        body = object_of(await request.body())
        try:
            row = self.faults.add(_fault_order(body))
        except UsageError as error:
            raise Problem(400, error.message) from error
        date_shift.write(self.date_shift, self.faults.waiting())
        return JSONResponse(fault_to_wire(row), status_code=201)

    async def _clear_faults(self, _: Request) -> Response:
        cleared = self.faults.clear()
        date_shift.write(self.date_shift, ())
        return JSONResponse({"cleared": cleared})

    async def _test_webhook(self, request: Request) -> Response:
        webhook_id = text(object_of(await request.body()), "webhook_id")
        self.webhooks.test(found(self.store.get(WebhookRow, webhook_id), "Webhook"))
        return Response(status_code=204)

    async def _model_requests(self, request: Request) -> Response:
        return JSONResponse({"requests": self.model_log.requests(request.query_params.get("instance", ""))})

    async def _start_objects(self, _: Request) -> Response:
        try:
            return JSONResponse(asdict(await self.objects.start()))
        except HermesError as error:
            raise Problem(503, error.message) from error


def fault_to_wire(row: FaultRow) -> dict[str, object]:
    """A waiting fault in the world's JSON."""
    return {**asdict(row), "probability": row.probability or 1.0}


def _fault_order(body: Mapping[str, object]) -> FaultOrder:
    probability = body.get("probability", 1.0)
    if not isinstance(probability, int | float) or isinstance(probability, bool):
        raise Problem(400, "probability: a number is expected")
    numbers = {
        name: _number(body, name) for name in ("times", "status", "seconds", "for_s") if body.get(name) is not None
    }
    return FaultOrder(
        kind=text(body, "kind"),
        machine=text(body, "machine", ""),
        method=text(body, "method", ""),
        path=text(body, "path", ""),
        probability=float(probability),
        seed=_number(body, "seed", 0),
        **numbers,
    )


def _number(body: Mapping[str, object], name: str, default: int | None = None) -> int:
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool):
        raise Problem(400, f"{name}: a number is expected")
    return value
