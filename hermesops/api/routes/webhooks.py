"""``/webhooks``: what vendors send. Each is verified over its raw bytes, kept as one row, and answered."""

import asyncio
import time
from http import HTTPStatus

from fastapi import APIRouter, HTTPException, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response

from hermesops.api.parts import Parts
from hermesops.users.messaging.messengers.discord import interactions as discord
from hermesops.users.messaging.messengers.slack.read import SIGNATURE_HEADER, TIMESTAMP_HEADER
from hermesops.users.messaging.messengers.telegram.read import SECRET_HEADER
from hermesops.users.messaging.messengers.whatsapp import read as whatsapp

router = APIRouter()


@router.post("/webhooks/stripe/hermes")
async def stripe_event(request: Request, parts: Parts) -> Response:
    """Take an event of Stripe's: 204 once it is a row, 401 for what Stripe did not sign, 503 to get it again."""
    if parts.stripe is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    body, signature = await request.body(), request.headers.get("stripe-signature", "")
    await asyncio.to_thread(parts.stripe.take, body, signature, time.time())
    return Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/webhooks/telegram")
async def telegram_update(request: Request, parts: Parts) -> Response:
    """Take an update of Telegram's: 204, or a request of ours, once it is a row; 401 unsigned, 503 to get it again."""
    if parts.telegram is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    body, secret = await request.body(), request.headers.get(SECRET_HEADER, "")
    reply = await asyncio.to_thread(parts.telegram.take, body, secret)
    parts.heard()
    return JSONResponse(reply) if reply else Response(status_code=HTTPStatus.NO_CONTENT)


@router.post("/webhooks/slack")
async def slack_event(request: Request, parts: Parts) -> Response:
    """Take an event, or a pressed button, of Slack's: 204 once it is a row, 401 unsigned or late, 503 to get it again.

    Slack's question whether the address is ours is answered with its own text, and a button with 200, as documented.
    """
    if parts.slack is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    body, headers = await request.body(), request.headers
    stamp, signature = headers.get(TIMESTAMP_HEADER, ""), headers.get(SIGNATURE_HEADER, "")
    challenge = await asyncio.to_thread(parts.slack.take, body, stamp, signature, time.time())
    parts.heard()
    is_button = headers.get("content-type", "").startswith("application/x-www-form-urlencoded")
    nothing = Response(status_code=HTTPStatus.OK if is_button else HTTPStatus.NO_CONTENT)
    return PlainTextResponse(challenge) if challenge else nothing


@router.get(whatsapp.WEBHOOK_PATH)
async def whatsapp_question(request: Request, parts: Parts) -> Response:
    """Answer WhatsApp's question whether the address is ours with its own text; 401 for anybody else's."""
    if parts.whatsapp is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    return PlainTextResponse(await asyncio.to_thread(parts.whatsapp.confirm, request.query_params))


@router.post(whatsapp.WEBHOOK_PATH)
async def whatsapp_report(request: Request, parts: Parts) -> Response:
    """Take reports of WhatsApp's: 200 once each is a row, 401 for what Meta did not sign, 503 to get them again."""
    if parts.whatsapp is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    body, signature = await request.body(), request.headers.get(whatsapp.SIGNATURE_HEADER, "")
    await asyncio.to_thread(parts.whatsapp.take, body, signature)
    parts.heard()
    return Response(status_code=HTTPStatus.OK)


@router.post(discord.WEBHOOK_PATH)
async def discord_interaction(request: Request, parts: Parts) -> Response:
    """Answer an interaction of Discord's once it is a row; 401 for what Discord did not sign now, 503 without a row."""
    if parts.discord is None:
        raise HTTPException(HTTPStatus.NOT_FOUND)
    body, headers = await request.body(), request.headers
    stamp, signature = headers.get(discord.TIMESTAMP_HEADER, ""), headers.get(discord.SIGNATURE_HEADER, "")
    answer = await asyncio.to_thread(parts.discord.take, body, stamp, signature, time.time())
    parts.heard()
    return JSONResponse(answer) if answer else Response(status_code=HTTPStatus.BAD_REQUEST)
