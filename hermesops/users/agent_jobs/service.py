"""A user's jobs, through the relay. What they say is kept at the agent alone.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, routes ``/api/jobs``, and ``cron/jobs.py``.
"""

import asyncio
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from hermesops.agents.relay.client import AgentEndedError, NoSuchThingError, RelayClient
from hermesops.errors import RefusedError, UnknownOutcomeError
from hermesops.model.ids import InstanceId, UserId
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.wire.foreign_text import one_line, visible
from hermesops.wire.settings import is_schedule

LONGEST_NAME = 100
LONGEST_PROMPT = 5_000
LONGEST_SCHEDULE = 100
MOST = 50
"""Jobs of an agent that are shown, and that a user may have."""

_ID = re.compile(r"[A-Za-z0-9]{1,32}")


class JobRefusedError(RefusedError):
    """The agent does not take the job, or has too many."""


@dataclass(frozen=True)
class AgentJob:
    """A job of an agent.

    Attributes:
        schedule: As the agent shows it.
        last_status: How its last run ended; empty where there was none.
    """

    id: str
    name: str = field(repr=False)
    schedule: str
    prompt: str = field(repr=False)
    is_enabled: bool
    next_at: datetime | None = None
    last_at: datetime | None = None
    last_status: str = ""


class AgentJobs:
    """Lists, adds, changes and removes jobs of users' agents."""

    def __init__(self, accounts: UserAccounts, relay: RelayClient) -> None:
        self._accounts = accounts
        self._relay = relay

    async def list(self, user_id: UserId) -> tuple[AgentJob, ...]:
        """A user's jobs, paused ones too.

        Raises:
            RefusedError: The user has no agent.
            UnavailableError: The agent does not answer.
        """
        answer = await self._relay.get(await self._agent(user_id), "/api/jobs?include_disabled=true")
        rows = answer.get("jobs")
        jobs = [job_of(row) for row in (rows if isinstance(rows, list) else [])[:MOST] if isinstance(row, dict)]
        return tuple(job for job in jobs if job is not None)

    async def add(self, user_id: UserId, schedule: str, prompt: str, *, name: str, is_enabled: bool) -> AgentJob:
        """Give the user's agent a job; raises as ``list``.

        Raises:
            JobRefusedError: The agent does not take it, as for a schedule that is none; or there are too many.
            UnknownOutcomeError: The agent may have got it.
        """
        if not is_schedule(schedule):
            raise JobRefusedError("the schedule is none, such as '0 9 * * 1-5', 'every 2h' or '30m'", field="cron")
        if len(await self.list(user_id)) >= MOST:
            raise JobRefusedError(f"your agent has {MOST} jobs already")
        agent = await self._agent(user_id)
        title = name.strip() or one_line(prompt, longest=40)
        body = {"name": title, "schedule": schedule.strip(), "prompt": prompt, "deliver": "local"}
        try:
            job = _the_job(await self._relay.send("POST", agent, "/api/jobs", body))
        except (AgentEndedError, NoSuchThingError):
            raise
        except RefusedError as refused:
            raise JobRefusedError(refused.message) from refused
        if is_enabled:
            return job
        return _the_job(await self._relay.send("POST", agent, f"/api/jobs/{job.id}/pause", {}))

    async def delete(self, user_id: UserId, job_id: str) -> None:
        """Take a job from the user's agent; raises as ``add``.

        Raises:
            NoSuchThingError: The agent has no such job.
        """
        await self._relay.send("DELETE", await self._agent(user_id), f"/api/jobs/{job_id}")

    async def _agent(self, user_id: UserId) -> InstanceId:
        account = await asyncio.to_thread(self._accounts.of_user, user_id)
        if account is None:
            raise RefusedError("you have no agent")
        return account.instance_id


def job_of(row: Mapping[str, Any]) -> AgentJob | None:
    """Parse a job; ``None`` for one without a name that can be used. Pure."""
    id_ = row.get("id")
    if not isinstance(id_, str) or not _ID.fullmatch(id_):
        return None
    schedule = row.get("schedule_display") or row.get("schedule")
    if isinstance(schedule, dict):
        schedule = schedule.get("display") or schedule.get("expr") or ""
    return AgentJob(
        id_,
        _line(row.get("name"), LONGEST_NAME),
        _line(schedule, LONGEST_SCHEDULE),
        _text(row.get("prompt")),
        row.get("enabled") is True and row.get("state") != "paused",
        _timestamp(row.get("next_run_at")),
        _timestamp(row.get("last_run_at")),
        _line(row.get("last_status"), 64),
    )


def _the_job(answer: Mapping[str, Any]) -> AgentJob:
    row = answer.get("job")
    job = job_of(row) if isinstance(row, dict) else None
    if job is None:
        raise UnknownOutcomeError("the agent's answer about the job is malformed")
    return job


def _line(value: object, longest: int) -> str:
    return one_line(value, longest=longest) if isinstance(value, str) else ""


def _text(value: object) -> str:
    return visible(value[:LONGEST_PROMPT]) if isinstance(value, str) else ""


def _timestamp(value: object) -> datetime | None:
    try:
        timestamp = datetime.fromisoformat(value) if isinstance(value, str) else None
    except ValueError:
        return None
    return timestamp and (timestamp.replace(tzinfo=UTC) if timestamp.tzinfo is None else timestamp.astimezone(UTC))
