"""The stand-in of Stripe over HTTP: its API, its pages for payers, and signed events to one endpoint.

It refuses what Stripe refuses: keys of the other mode, unknown parameters, a known idempotency key with others, closed
pages. Source: as of ``books``; https://docs.stripe.com/webhooks for deliveries.
"""

import asyncio
import hmac
import json
import secrets
import time
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from http import HTTPStatus
from pathlib import Path
from typing import Any

import httpx
import structlog
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.localcloud.vendors.stripe.books import Books
from hermesops.localcloud.vendors.stripe.errors import StripeError
from hermesops.localcloud.vendors.stripe.form import parameters_of
from hermesops.localcloud.vendors.stripe.meters import METERS, summaries
from hermesops.localcloud.vendors.stripe.pages import LARGEST, PayersPages
from hermesops.localcloud.vendors.users_door import UsersDoor

PREFIX = "/stripe"
EVENTS_PATH = "/webhooks/stripe/hermes"
"""Path of the users' API that takes events."""

_ANSWER_S = 10.0
_AGAIN_S = (0.5, 2.0, 5.0, 15.0, *[60.0] * 60)
"""Seconds between deliveries of an event that was not taken. Stripe repeats for three days, this one for an hour."""

_KEYS = 1_000
_PARAMETERS: Mapping[str, frozenset[str]] = {
    "checkout": frozenset(
        {
            *("mode", "client_reference_id", "line_items", "metadata", "subscription_data", "success_url"),
            *("cancel_url", "expires_at", "customer"),
        }
    ),
    "portal": frozenset({"customer", "return_url"}),
    "update": frozenset({"cancel_at_period_end"}),
    "preview": frozenset({"subscription"}),
    "meter": frozenset({"event_name", "identifier", "payload", "timestamp"}),
    "none": frozenset(),
}

log = structlog.get_logger()

Answering = Callable[[Request, Mapping[str, Any]], Mapping[str, Any]]


class LocalStripe:
    """The stand-in.

    Args:
        url: Its own, with its prefix.
        secret: Signs events.
        webhook: Takes events; empty where nobody does.
        door: Says where events go, at each.
        file: Keeps the account; ``None`` for nowhere.
        clock: Seconds since 1970.
    """

    def __init__(
        self,
        url: str,
        secret: str,
        webhook: str = "",
        door: Callable[[], UsersDoor] = UsersDoor,
        file: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.url = url
        self.books = Books(file, clock, self._emit)
        self.requests: list[str] = []
        self.lost = 0
        """How many of the next events nobody gets."""

        self.unanswered = 0
        """How many of the next events for meters are taken, and their answers lost."""

        self.sums_late_s = 0
        """Seconds until an event for a meter is in sums."""

        self._secret = secret
        self.webhook, self._door = webhook, door
        self._answers: dict[str, tuple[str, Mapping[str, Any]]] = {}
        self._deliveries: set[asyncio.Task[None]] = set()
        self._metering: set[str] = set()

    def routes(self) -> list[Route]:
        """Routes of the stand-in, to be mounted below its prefix."""
        page = self.url
        books = self.books
        return [
            self._post("/v1/checkout/sessions", "checkout", lambda _, body: books.begin_checkout(body, f"{page}/pay")),
            self._get("/v1/checkout/sessions/{id}", lambda request: books.session(request.path_params["id"])),
            self._post(
                "/v1/checkout/sessions/{id}/expire",
                "none",
                lambda request, _: books.close_checkout(request.path_params["id"]),
            ),
            self._post(
                "/v1/billing_portal/sessions",
                "portal",
                lambda _, body: books.open_portal(
                    body.get("customer", ""), body.get("return_url", ""), f"{page}/portal"
                ),
            ),
            self._get("/v1/subscriptions", self._list_subscriptions),
            self._get("/v1/subscriptions/{id}", lambda request: books.subscription(request.path_params["id"])),
            self._post("/v1/subscriptions/{id}", "update", self._update),
            self._get("/v1/invoices", self._list_invoices),
            self._post("/v1/invoices/create_preview", "preview", self._preview),
            Route("/v1/billing/meter_events", self._meter, methods=["POST"]),
            self._get("/v1/billing/meters", lambda _: _listed_all([meter.shown for meter in METERS])),
            self._get("/v1/billing/meters/{id}/event_summaries", self._summaries),
            *PayersPages(books, page).routes(),
        ]

    async def close(self) -> None:
        """End deliveries under way; events that nobody took are lost."""
        await cancel(*self._deliveries)

    async def delivered(self) -> None:
        """Wait until every event was taken or given up."""
        while self._deliveries:
            await asyncio.gather(*self._deliveries, return_exceptions=True)

    # The API

    def _get(self, path: str, answer: Callable[[Request], Mapping[str, Any]]) -> Route:
        async def handle(request: Request) -> Response:
            return await self._answered(request, lambda: _now(answer(request)))

        return Route(path, handle, methods=["GET"])

    def _post(self, path: str, kind: str, answer: Answering) -> Route:
        async def act(request: Request) -> Mapping[str, Any]:
            text = (await request.body())[:LARGEST].decode()
            body = parameters_of(text)
            if unknown := body.keys() - _PARAMETERS[kind]:
                raise StripeError(f"Received unknown parameter: {min(unknown)}")
            key = request.headers.get("idempotency-key", "")
            named = f"{request.url.path}?{text}"
            if key in self._answers:
                before, result = self._answers[key]
                if before != named:
                    raise StripeError(
                        "Keys for idempotent requests can only be used with the same parameters they were first used "
                        "with.",
                        kind="idempotency_error",
                    )
                return result
            result = answer(request, body)
            self.books.keep()
            if key:
                self._answers[key] = (named, json.loads(json.dumps(result)))
                while len(self._answers) > _KEYS:
                    del self._answers[next(iter(self._answers))]
            return result

        async def handle(request: Request) -> Response:
            return await self._answered(request, lambda: act(request))

        return Route(path, handle, methods=["POST"])

    async def _answered(self, request: Request, act: Callable[[], Awaitable[Mapping[str, Any]]]) -> Response:
        self.requests.append(f"{request.method} {request.url.path.partition('/v1')[2]}")
        del self.requests[:-_KEYS]
        scheme, _, key = request.headers.get("authorization", "").partition(" ")
        if scheme != "Bearer" or not key.startswith(("sk_test_", "rk_test_")):
            return _error(StripeError("Invalid API Key provided", HTTPStatus.UNAUTHORIZED))
        try:
            return JSONResponse(await act())
        except StripeError as error:
            return _error(error)

    def _list_subscriptions(self, request: Request) -> Mapping[str, Any]:
        rows = list(reversed(self.books.subscriptions.values()))
        if request.query_params.get("status") != "all":
            rows = [row for row in rows if row["status"] != "canceled"]
        return _page_of(rows, request, "/v1/subscriptions")

    def _list_invoices(self, request: Request) -> Mapping[str, Any]:
        wanted = request.query_params.get("subscription", "")
        self.books.subscription(wanted)
        rows = [
            row
            for row in reversed(self.books.invoices.values())
            if row["parent"]["subscription_details"]["subscription"] == wanted
        ]
        return _page_of(rows, request, "/v1/invoices")

    def _update(self, request: Request, body: Mapping[str, Any]) -> Mapping[str, Any]:
        ends = {"true": True, "false": False}.get(str(body.get("cancel_at_period_end", "")))
        return self.books.update(request.path_params["id"], ends_with_period=ends)

    def _preview(self, _request: Request, body: Mapping[str, Any]) -> Mapping[str, Any]:
        subscription = self.books.subscription(str(body.get("subscription", "")))
        if subscription["status"] == "canceled" or subscription["cancel_at_period_end"]:
            raise StripeError("No upcoming invoices for this subscription")
        return self.books.invoice(subscription)

    async def _meter(self, request: Request) -> Response:
        """Take an event, one of a customer and meter at a time."""
        body = parameters_of((await request.body())[:LARGEST].decode())
        payload = body.get("payload")
        busy = f"{body.get('event_name')} {payload.get('stripe_customer_id') if isinstance(payload, Mapping) else ''}"

        async def act() -> Mapping[str, Any]:
            if unknown := body.keys() - _PARAMETERS["meter"]:
                raise StripeError(f"Received unknown parameter: {min(unknown)}")
            if busy in self._metering:
                raise StripeError("Another event of this customer and meter is taken now", 429, "lock_timeout")
            self._metering.add(busy)
            try:
                await pause(0.001)  # other requests come in meanwhile
                event = self.books.meter(body)
            finally:
                self._metering.discard(busy)
            self.books.keep()
            return event

        answer = await self._answered(request, act)
        if answer.status_code == HTTPStatus.OK and self.unanswered:
            self.unanswered -= 1
            return Response(status_code=HTTPStatus.BAD_GATEWAY, headers={"stripe-should-retry": "false"})
        return answer

    def _summaries(self, request: Request) -> Mapping[str, Any]:
        events = self.books.meter_events.values()
        query = dict(request.query_params)
        rows = summaries(request.path_params["id"], query, events, self.books.now, late_s=self.sums_late_s)
        return _listed_all(rows)

    # Events

    def _emit(self, kind: str, about: Mapping[str, Any]) -> None:
        if self.lost:
            self.lost -= 1
            return
        event = {
            "id": f"evt_{secrets.token_hex(12)}",
            "object": "event",
            "api_version": "2026-10-28.endive",
            "created": self.books.now,
            "livemode": False,
            "type": kind,
            "data": {"object": about},
        }
        task = asyncio.ensure_future(self._deliver(json.dumps(event)))
        self._deliveries.add(task)
        task.add_done_callback(self._deliveries.discard)

    async def _deliver(self, body: str) -> None:
        for again_s in (*_AGAIN_S, None):
            if await self._is_taken(body):
                return
            if again_s is not None:
                await pause(again_s)
        log.warning("stripe_event_given_up")

    async def _is_taken(self, body: str) -> bool:
        """Whether the address of this moment takes an event; an account without one has no events."""
        headers = {"stripe-signature": signature_of(body, self._secret, self.books.now)}
        try:
            door = self._door()
            if not (door.url or self.webhook):
                return True
            webhook = self.webhook or EVENTS_PATH
            response = await door.request("POST", webhook, content=body, headers=headers, within_s=_ANSWER_S)
        except HermesError as error:
            log.warning("stripe_endpoint_unknown", why=error.message)
            return False
        except httpx.HTTPError:
            return False
        return response.is_success


def signature_of(body: str, secret: str, now: int) -> str:
    """The header ``Stripe-Signature`` of an event. Pure."""
    digest = hmac.new(secret.encode(), f"{now}.{body}".encode(), sha256).hexdigest()
    return f"t={now},v1={digest}"


async def _now(answer: Mapping[str, Any]) -> Mapping[str, Any]:
    return answer


def _page_of(rows: list[dict[str, Any]], request: Request, url: str) -> Mapping[str, Any]:
    limit = int(request.query_params.get("limit", 10))
    if not 1 <= limit <= 100:  # noqa: PLR2004 - Stripe's bounds
        raise StripeError("This value must be between 1 and 100.")
    after = request.query_params.get("starting_after", "")
    ids = [row["id"] for row in rows]
    if after and after not in ids:
        raise StripeError(f"No such object: '{after}'")
    begin = ids.index(after) + 1 if after else 0
    page = rows[begin : begin + limit]
    return {"object": "list", "url": url, "has_more": begin + limit < len(rows), "data": page}


def _listed_all(rows: list[dict[str, Any]]) -> Mapping[str, Any]:
    return {"object": "list", "url": "", "has_more": False, "data": rows}


def _error(error: StripeError) -> Response:
    return JSONResponse({"error": {"message": str(error), "type": error.kind}}, error.status)
