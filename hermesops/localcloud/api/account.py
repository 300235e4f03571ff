"""Handlers of the account, its bill and the catalog: they change no machine and cost nothing."""

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api.problem import CHECKOUT, Problem
from hermesops.localcloud.api.wire import shown_status
from hermesops.localcloud.faults.kinds import FaultKind
from hermesops.localcloud.faults.rules import Faults
from hermesops.localcloud.fleet.catalog import PROVIDER, REGIONS, SERVER_TYPES
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import EPOCH

_ACCOUNT_ID = "00000000-0000-4000-8000-000000000001"
_PORTAL = "https://billing.invalid/portal"


class Account:
    """Handlers of the one account of a local world; they change no machine and cost nothing."""

    def __init__(self, store: Store, faults: Faults) -> None:
        self._store = store
        self._faults = faults

    def routes(self) -> list[Route]:
        """The routes of the account and the catalog."""
        return [
            Route("/account", self._account),
            Route("/account/usage", self._usage),
            Route("/account/billing", self._billing),
            Route("/account/billing/setup", _answering({"checkout_url": CHECKOUT}), methods=["POST"]),
            Route("/server-types", self._server_types),
            Route("/server-types/providers", _answering({"providers": [{"name": PROVIDER, "display_name": "Cloud"}]})),
            Route("/server-types/regions", _answering({"provider": PROVIDER, "regions": list(REGIONS.values())})),
        ]

    async def _account(self, _: Request) -> Response:
        return JSONResponse(
            {
                "id": _ACCOUNT_ID,
                "email": "operator@localhost",
                "name": "local world",
                "machines_count": len(self._store.machines()),
                "created_at": EPOCH,
            }
        )

    async def _usage(self, _: Request) -> Response:
        rows = self._store.machines()
        machines = [
            {"id": row.id, "slug": row.slug, "server_type": row.server_type, "status": shown_status(row)}
            for row in rows
        ]
        cost = round(sum(SERVER_TYPES[row.server_type].price_with(backups=row.backups) for row in rows), 2)
        return JSONResponse(
            {"current_period": {"machines": machines, "total_machines": len(rows), "estimated_cost": cost}}
        )

    async def _billing(self, _: Request) -> Response:
        if self._faults.waits(FaultKind.PAYMENT_REQUIRED):
            return JSONResponse(
                {"portal_url": None, "has_payment_method": False, "message": "No payment method on file"}
            )
        return JSONResponse({"portal_url": _PORTAL, "has_payment_method": True})

    async def _server_types(self, request: Request) -> Response:
        region = request.query_params.get("region", "")
        if not region:
            raise Problem(400, "region: text is expected")
        here = region in REGIONS and request.query_params.get("provider", PROVIDER) == PROVIDER
        sold = list(SERVER_TYPES.values()) if here else []
        available = not self._faults.waits(FaultKind.SOLD_OUT)
        return JSONResponse(
            {
                "provider": PROVIDER,
                "region": region,
                "server_types": [kind.to_wire(available=available) for kind in sold],
            }
        )


def _answering(value: dict[str, object]) -> Callable[[Request], Awaitable[Response]]:
    """A handler with a constant answer."""

    async def answer(_: Request) -> Response:
        return JSONResponse(value)

    return answer
