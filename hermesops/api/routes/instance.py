"""``/api/hermes/instance``: the state of the user's agent, as its page shows it."""

import asyncio
from datetime import datetime
from typing import Literal

from fastapi import APIRouter
from pydantic import BaseModel

from hermesops.api.parts import CurrentUser, Parts

router = APIRouter(tags=["instance"])


class InstanceAnswer(BaseModel):
    """The user's agent.

    Attributes:
        heartbeat_age_s: Seconds since its last heartbeat; ``None`` where none was received.
    """

    id: str
    plan: Literal["light", "heavy"]
    status: Literal["provisioning", "running", "suspended"]
    since: datetime
    heartbeat_age_s: int | None
    region: str


@router.get("/instance")
async def get_instance(user: CurrentUser, parts: Parts) -> InstanceAnswer:
    """Show the user's agent: plan, status and the age of its last heartbeat."""
    account = await parts.chat.account(user)
    age = None
    if account.last_heartbeat is not None:
        now = await asyncio.to_thread(parts.accounts.now)
        age = max(0, int((now - account.last_heartbeat).total_seconds()))
    return InstanceAnswer.model_validate(
        {
            "id": account.instance_id,
            "plan": account.plan.value,
            "status": account.status.value,
            "since": account.created_at,
            "heartbeat_age_s": age,
            "region": account.region,
        }
    )
