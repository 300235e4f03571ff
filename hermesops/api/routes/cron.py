"""``/api/hermes/cron``: jobs that the agent does at times."""

from datetime import datetime
from typing import Annotated

from fastapi import APIRouter
from pydantic import BaseModel, Field

from hermesops.api.parts import CurrentUser, Parts
from hermesops.api.routes.shapes import Strict, Text
from hermesops.users.agent_jobs.service import LONGEST_NAME, LONGEST_PROMPT, LONGEST_SCHEDULE, AgentJob

router = APIRouter(tags=["cron"])

JobId = Annotated[str, Field(pattern=r"^[A-Za-z0-9]{1,32}$")]


class JobRequest(Strict):
    """A job.

    Attributes:
        cron: When, as ``0 9 * * 1``, ``every 2h`` or ``30m``.
        prompt: What the agent is told then.
    """

    cron: Annotated[Text, Field(min_length=1, max_length=LONGEST_SCHEDULE, pattern=r"\S")]
    prompt: Annotated[Text, Field(min_length=1, max_length=LONGEST_PROMPT, pattern=r"\S")]
    name: Annotated[Text, Field(max_length=LONGEST_NAME)] = ""
    enabled: bool = True


class JobAnswer(BaseModel):
    """A job, and how its last run ended; ``None`` where it did not run yet."""

    id: str
    name: str
    cron: str
    prompt: str
    enabled: bool
    next_at: datetime | None
    last_at: datetime | None
    last_status: str | None


@router.get("/cron")
async def list_jobs(user: CurrentUser, parts: Parts) -> list[JobAnswer]:
    """List the jobs that the user gave the agent."""
    await parts.chat.running(user)
    return [_answer(job) for job in await parts.jobs.list(user)]


@router.post("/cron", status_code=201)
async def add_job(body: JobRequest, user: CurrentUser, parts: Parts) -> JobAnswer:
    """Give the agent a job, which it does at the times of a schedule."""
    await parts.chat.running(user)
    job = await parts.jobs.add(user, body.cron, body.prompt, name=body.name, is_enabled=body.enabled)
    return _answer(job)


@router.delete("/cron/{job_id}", status_code=204)
async def delete_job(job_id: JobId, user: CurrentUser, parts: Parts) -> None:
    """Take a job from the agent."""
    await parts.chat.running(user)
    await parts.jobs.delete(user, job_id)


def _answer(job: AgentJob) -> JobAnswer:
    return JobAnswer(
        id=job.id,
        name=job.name,
        cron=job.schedule,
        prompt=job.prompt,
        enabled=job.is_enabled,
        next_at=job.next_at,
        last_at=job.last_at,
        last_status=job.last_status or None,
    )
