"""Handlers of ``/webhooks``."""

import json
import re
import secrets
from collections.abc import Mapping
from uuid import uuid4

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.localcloud.api.problem import Problem, not_found
from hermesops.localcloud.api.requests import object_of, text
from hermesops.localcloud.store.clock import now
from hermesops.localcloud.store.database import Store
from hermesops.localcloud.store.rows import WebhookRow
from hermesops.localcloud.webhooks.events import RECEIVER, WANTED


class WebhooksApi:
    """What the API says and does about receivers of events.

    Args:
        store: What there is.
    """

    def __init__(self, store: Store) -> None:
        self._store = store

    def routes(self) -> list[Route]:
        """What it serves."""
        return [
            Route("/webhooks", self._list, methods=["GET"]),
            Route("/webhooks", self._create, methods=["POST"]),
            Route("/webhooks/{webhook_id}", self._delete, methods=["DELETE"]),
        ]

    async def _list(self, _: Request) -> Response:
        return JSONResponse({"webhooks": [_to_wire(row) for row in self._store.find(WebhookRow)]})

    async def _create(self, request: Request) -> Response:
        body = object_of(await request.body())
        secret = text(body, "secret", "") or f"whsec_{secrets.token_urlsafe(32)}"
        row = WebhookRow(str(uuid4()), _url(body), json.dumps(_events(body)), secret, now())
        self._store.add(row)
        return JSONResponse({**_to_wire(row), "secret": row.secret}, status_code=201)

    async def _delete(self, request: Request) -> Response:
        webhook_id = request.path_params["webhook_id"]
        if self._store.get(WebhookRow, webhook_id) is None:
            raise not_found("Webhook")
        self._store.remove(WebhookRow, webhook_id)
        return Response(status_code=204)


def _url(body: Mapping[str, object]) -> str:
    """A receiver's address. The vendor takes HTTPS; here receivers are on this computer, where HTTP is safe too."""
    url = text(body, "url")
    if re.fullmatch(RECEIVER, url) is None:
        raise Problem(400, "url: the local world sends events to receivers on this computer's loopback only")
    return url


def _events(body: Mapping[str, object]) -> list[str]:
    events = body.get("events")
    if not isinstance(events, list) or not events or not all(event in WANTED for event in events):
        raise Problem(400, f"events: a list of {', '.join(WANTED)} is expected")
    return events


def _to_wire(row: WebhookRow) -> dict[str, object]:
    return {
        "id": row.id,
        "url": row.url,
        "events": json.loads(row.events),
        "active": row.active,
        "created_at": row.created_at,
    }
