"""``/api/hermes/subscribe``, ``/plan`` and ``/requests``: what users buy, pay and end."""

import asyncio
from datetime import datetime
from typing import Literal
from uuid import UUID

from fastapi import APIRouter
from pydantic import BaseModel

from hermesops.api.parts import ApiParts, CurrentUser, Parts
from hermesops.api.routes.shapes import Name, Strict
from hermesops.model.billing.statement import Statement
from hermesops.model.billing.user_request import RequestKind, RequestState
from hermesops.model.ids import UserId
from hermesops.store.user_rows.plans import UserPlan
from hermesops.users.user_requests.refusals import raise_refused
from hermesops.users.user_requests.service import Requests, RequestView

router = APIRouter(tags=["plan"])


class SubscribeRequest(Strict):
    """A plan to buy.

    Attributes:
        client_key: Chosen by the client: the same key is the same request, however often it is sent.
    """

    plan: Literal["light", "heavy"]
    client_key: Name


class KeyRequest(Strict):
    """A request without parameters; ``client_key`` as of ``SubscribeRequest``."""

    client_key: Name


class RequestAnswer(BaseModel):
    """A request and its outcome.

    Attributes:
        state: ``queued`` and ``waiting`` change by themselves: ask again.
        url: Address of the page where the user goes on; ``None`` for none.
        code: Of a refusal, for programs; ``None`` for none.
        detail: The outcome, for people.
    """

    request: str
    kind: str
    state: Literal["queued", "waiting", "done", "refused"]
    url: str | None
    code: str | None
    detail: str
    operation: str | None


class SubscribeAnswer(BaseModel):
    """A request to subscribe; ``checkout_url`` is ``None`` until the page is made: ask for the request again."""

    request: str
    checkout_url: str | None


class LineAnswer(BaseModel):
    """A line of an invoice; ``amount`` in the smallest unit of the currency."""

    description: str
    amount: int


class InvoiceAnswer(BaseModel):
    """An invoice; ``total`` as ``amount`` of its lines, ``url`` is Stripe's page of it."""

    number: str
    created: datetime
    status: str
    total: int
    currency: str
    url: str | None
    lines: list[LineAnswer]
    has_more_lines: bool


class ChargeAnswer(BaseModel):
    """The next charge as it would be now; ``amount`` is ``None`` where it is not known yet."""

    at: datetime
    amount: int | None
    currency: str | None
    lines: list[LineAnswer]


class MeteredAnswer(BaseModel):
    """Usage of the period by one meter.

    Attributes:
        meter: ``instance_days``: days on which the agent ran; ``model_micros``: millionths of a US dollar for models.
        reported: The part of ``quantity`` that is on the next invoice already.
    """

    meter: Literal["instance_days", "model_micros"]
    quantity: int
    reported: int
    last: datetime


class PlanAnswer(BaseModel):
    """The user's plan as it is paid.

    Attributes:
        status: Of the subscription, in Stripe's words; ``none`` without one.
        plan: The plan that is paid for; ``None`` for none.
        ends_at: When a cancelled subscription ends; ``None`` for one that goes on.
        metered: Usage by meter since ``metered_since``; ``None`` there for the last 31 days.
        read_at: When this was read at Stripe; ``None`` for never.
        subscribing: The last request to subscribe, while it is open, was refused, or was done after ``read_at``, so
            that an ended plan is of before; else ``None``.
    """

    status: str
    plan: Literal["light", "heavy"] | None
    ends_at: datetime | None
    next_charge: ChargeAnswer | None
    invoices: list[InvoiceAnswer]
    metered: list[MeteredAnswer]
    metered_since: datetime | None
    read_at: datetime | None
    subscribing: RequestAnswer | None


@router.post("/subscribe", status_code=202)
async def subscribe(body: SubscribeRequest, user: CurrentUser, parts: Parts) -> SubscribeAnswer:
    """Begin to buy a plan: send the browser to ``checkout_url``. The agent is made once the plan is paid."""
    content = {"plan": body.plan, "origin": parts.origin}
    view = await parts.requests.ask(user, RequestKind.SUBSCRIBE, body.client_key, content)
    raise_refused(view.request)
    return SubscribeAnswer(request=view.request.id, checkout_url=view.url or None)


@router.get("/plan")
async def get_plan(user: CurrentUser, parts: Parts) -> PlanAnswer:
    """Show the plan as it is paid: status, next charge, and the last invoices with their lines."""
    kept = await asyncio.to_thread(parts.plans.get, user)
    statement = kept.statement if kept else Statement()
    charge = statement.next_charge
    metered = await asyncio.to_thread(parts.metered.get, user, statement.period_begins_at)
    return PlanAnswer.model_validate(
        {
            "status": statement.status or "none",
            "plan": statement.plan or None,
            "ends_at": statement.ends_at,
            "next_charge": charge
            and {
                "at": charge.at,
                "amount": charge.amount,
                "currency": charge.currency or None,
                "lines": [vars(line) for line in charge.lines],
            },
            "invoices": [
                {
                    "number": invoice.number,
                    "created": invoice.created_at,
                    "status": invoice.status,
                    "total": invoice.total,
                    "currency": invoice.currency,
                    "url": invoice.url or None,
                    "lines": [vars(line) for line in invoice.lines],
                    "has_more_lines": invoice.has_more_lines,
                }
                for invoice in statement.invoices
            ],
            "metered": [
                {"meter": each.meter, "quantity": each.quantity, "reported": each.reported, "last": each.last_at}
                for each in metered
            ],
            "metered_since": statement.period_begins_at,
            "read_at": kept.read_at if kept else None,
            "subscribing": await _subscribing(parts.requests, user, kept),
        }
    )


@router.post("/plan/cancel", status_code=202)
async def cancel_plan(body: KeyRequest, user: CurrentUser, parts: Parts) -> RequestAnswer:
    """End the plan with the period that is paid; until then the agent runs on."""
    return await _asked(user, parts, RequestKind.CANCEL, body.client_key)


@router.post("/plan/portal", status_code=202)
async def open_portal(body: KeyRequest, user: CurrentUser, parts: Parts) -> RequestAnswer:
    """Make a page where the user changes card, address and plan; ``url`` is its address for some minutes."""
    return await _asked(user, parts, RequestKind.PORTAL, body.client_key)


@router.get("/requests/{request_id}")
async def get_request(request_id: UUID, user: CurrentUser, parts: Parts) -> RequestAnswer:
    """Show one of the user's requests with its outcome."""
    return _answer(await parts.requests.get(user, str(request_id)))


async def _asked(user: UserId, parts: ApiParts, kind: RequestKind, client_key: str) -> RequestAnswer:
    view = await parts.requests.ask(user, kind, client_key, {"origin": parts.origin})
    raise_refused(view.request)
    return _answer(view)


_ENDED = frozenset({"", "canceled", "incomplete_expired"})
"""States of a statement that is of no subscription, or of one that has ended."""


async def _subscribing(service: Requests, user: UserId, kept: UserPlan | None) -> RequestAnswer | None:
    view = await service.newest(user, RequestKind.SUBSCRIBE)
    if view is None:
        return None
    request = view.request
    is_known = kept is not None and (
        kept.statement.status not in _ENDED or (request.ended_at is not None and request.ended_at <= kept.read_at)
    )
    return None if request.state is RequestState.DONE and is_known else _answer(view)


def _answer(view: RequestView) -> RequestAnswer:
    request = view.request
    return RequestAnswer.model_validate(
        {
            "request": request.id,
            "kind": request.kind,
            "state": request.state.value,
            "url": view.url or None,
            "code": request.code or None,
            "detail": request.detail,
            "operation": request.operation_id,
        }
    )
