"""``/api/hermes/usage``: what the user's agent used of models this month."""

import asyncio

from fastapi import APIRouter
from pydantic import BaseModel

from hermesops.api.parts import CurrentUser, Parts

router = APIRouter(tags=["usage"])


class UsageAnswer(BaseModel):
    """Use of models in a month of UTC.

    Attributes:
        period: As ``2026-11``.
        cost_micros: Millionths of a US dollar.
        budget_micros: ``None`` for no limit.
        turns: Messages of the web chat.
    """

    period: str
    tokens_in: int
    tokens_out: int
    cost_micros: int
    budget_micros: int | None
    turns: int


@router.get("/usage")
async def get_usage(user: CurrentUser, parts: Parts) -> UsageAnswer:
    """Show tokens, cost and budget of this month."""
    account = await parts.chat.account(user)
    usage = await asyncio.to_thread(parts.accounts.usage, user, account)
    return UsageAnswer(
        period=f"{usage.month:%Y-%m}",
        tokens_in=usage.input_tokens,
        tokens_out=usage.output_tokens,
        cost_micros=usage.micros,
        budget_micros=usage.budget_micros,
        turns=usage.turns,
    )
