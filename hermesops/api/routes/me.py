"""``/api/hermes/me``: the user whose token or session a request has."""

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from hermesops.api.parts import CurrentUser, Parts

router = APIRouter(tags=["me"])


class MeAnswer(BaseModel):
    """The user of the request; ``display_name`` is their alias, or a stand-in for it."""

    user: str
    display_name: str


@router.get("/me")
async def get_me(user: CurrentUser, parts: Parts) -> MeAnswer:
    """Show who the user of this token or session is."""
    alias = await asyncio.to_thread(parts.accounts.alias_of, user)
    return MeAnswer(user=user, display_name=alias or "you")
