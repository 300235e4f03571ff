"""``/api/hermes/messengers``: messengers in which a user writes to their agent."""

from datetime import datetime
from http import HTTPStatus

from fastapi import APIRouter, HTTPException
from pydantic import BaseModel

from hermesops.api.parts import ApiParts, CurrentUser, Parts
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.inbound.links import MessengerLinks, NotOfferedError

router = APIRouter(tags=["messengers"])


class MessengerAnswer(BaseModel):
    """A messenger that is offered, and the user's account there.

    Attributes:
        bot: Name of the bot to write to.
        account: The account's name as the messenger shows it; ``None`` where none is linked.
        blocked: Whether the user has blocked the bot.
    """

    messenger: str
    bot: str
    account: str | None
    linked_at: datetime | None
    blocked: bool


class LinkCodeAnswer(BaseModel):
    """A code that links one account, once; ``url`` opens the chat with the bot, and ``text`` is the message to send."""

    code: str
    url: str
    text: str
    expires_at: datetime


@router.get("/messengers")
async def list_messengers(user: CurrentUser, parts: Parts) -> list[MessengerAnswer]:
    """List the messengers that are offered, with the user's accounts."""
    links = parts.messengers
    return [
        MessengerAnswer(
            messenger=link.messenger,
            bot=link.bot,
            account=link.account.display if link.account else None,
            linked_at=link.account.linked_at if link.account else None,
            blocked=link.account is not None and link.account.blocked_at is not None,
        )
        for link in (await links.list(user) if links else ())
    ]


@router.post("/messengers/{messenger}/link-code")
async def make_link_code(messenger: Messenger, user: CurrentUser, parts: Parts) -> LinkCodeAnswer:
    """Make a code by which the user links an account within ten minutes: whoever sends it to the bot is the user."""
    link_code = await _links(parts).make_code(user, messenger)
    return LinkCodeAnswer(code=link_code.code, url=link_code.url, text=link_code.text, expires_at=link_code.expires_at)


@router.delete("/messengers/{messenger}", status_code=204)
async def unlink_messenger(messenger: Messenger, user: CurrentUser, parts: Parts) -> None:
    """Unlink the user's account: nothing from it reaches the agent from now on, nor the other way."""
    if not await _links(parts).unlink(user, messenger):
        raise HTTPException(HTTPStatus.NOT_FOUND)


def _links(parts: ApiParts) -> MessengerLinks:
    if parts.messengers is None:
        raise NotOfferedError("no messenger is offered here")
    return parts.messengers
