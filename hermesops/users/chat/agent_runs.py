"""An agent's runs and transcript, through the relay, as the chat decides upon them.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, routes ``/v1/runs`` and ``/api/sessions``. A run loads
no history of its session (observed 2026-11-29), so each run gets it; newer agents take it as it is given, too.
"""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from hermesops.agents.relay.client import NoSuchThingError, RelayClient
from hermesops.errors import RefusedError, UnavailableError
from hermesops.model.chat.transcript import AgentView, Message, Run, RunState, Transcript
from hermesops.model.chat.turn import Turn

_MOST_MESSAGES = 200
_MOST_CHARACTERS = 400_000
"""Bounds of the history that goes with a message; older messages are left out. The agent's memory keeps the rest."""

_MOST_TEXT = 1_000_000


class AgentRuns:
    """Runs of users' agents."""

    def __init__(self, relay: RelayClient) -> None:
        self._relay = relay

    async def view(self, turn: Turn) -> AgentView | None:
        """Observe a turn at its agent; ``None`` where the agent does not answer, or refuses to."""
        try:
            transcript = await self.transcript(turn.instance_id, turn.session)
            run = await self._run(turn) if turn.run_id else None
            active = 0 if turn.run_id else await self._active_runs(turn.instance_id)
        except (UnavailableError, RefusedError):
            return None
        return AgentView(transcript, run, active)

    async def transcript(self, agent: str, session: str) -> Transcript:
        """Read a session's messages; none where the agent knows no such session.

        Raises:
            UnavailableError: The agent does not answer.
        """
        try:
            answer = await self._relay.get(agent, f"/api/sessions/{session}/messages")
        except NoSuchThingError:
            return Transcript()
        rows = answer.get("data")
        return Transcript(tuple(_messages(rows if isinstance(rows, list) else [])))

    async def start(self, turn: Turn, transcript: Transcript) -> str:
        """Send the turn's message; returns the name of its run.

        Raises:
            AgentBusyError: The agent did not get it.
            UnknownOutcomeError: The agent may have got it.
            RefusedError: The agent refuses it.
        """
        body = {
            "input": turn.message,
            "session_id": turn.session,
            "conversation_history": history_of(transcript),
        }
        answer = await self._relay.post(turn.instance_id, "/v1/runs", body)
        return str(answer.get("run_id") or "")[:128]

    @asynccontextmanager
    async def events(self, turn: Turn) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Read the events of the turn's run, once; raises as ``RelayClient.events``."""
        async with self._relay.events(turn.instance_id, f"/v1/runs/{turn.run_id}/events") as events:
            yield events

    async def stop(self, turn: Turn) -> None:
        """Stop the turn's run; raises as ``RelayClient.post``."""
        await self._relay.post(turn.instance_id, f"/v1/runs/{turn.run_id}/stop", {})

    async def approve(self, turn: Turn, choice: str) -> None:
        """Answer the request for approval that the turn's run waits for; raises as ``RelayClient.post``."""
        await self._relay.post(turn.instance_id, f"/v1/runs/{turn.run_id}/approval", {"choice": choice})

    async def _run(self, turn: Turn) -> Run | None:
        try:
            answer = await self._relay.get(turn.instance_id, f"/v1/runs/{turn.run_id}")
        except NoSuchThingError:
            return None
        return run_of(answer)

    async def _active_runs(self, agent: str) -> int:
        answer = await self._relay.get(agent, "/health/detailed")
        readiness = answer.get("readiness")
        checks = readiness.get("checks") if isinstance(readiness, dict) else None
        queues = checks.get("background_queues") if isinstance(checks, dict) else None
        count = queues.get("active_api_runs") if isinstance(queues, dict) else None
        return count if isinstance(count, int) else 1  # unknown: a run may be active


def run_of(answer: Mapping[str, Any]) -> Run:
    """Parse a run.

    Raises:
        UnavailableError: It is malformed.
    """
    try:
        state = RunState(str(answer.get("status")))
    except ValueError:
        raise UnavailableError("the agent answers an unknown state of a run") from None
    return Run(state, _text(answer.get("output")), _text(answer.get("error")))


def history_of(transcript: Transcript) -> Sequence[Mapping[str, str]]:
    """The newest spoken messages of a transcript, as a run takes them; tools' messages are left out. Pure."""
    spoken = [m for m in transcript.messages if m.text and (m.role == "user" or (m.role == "assistant" and m.is_final))]
    kept: list[Mapping[str, str]] = []
    left = _MOST_CHARACTERS
    for message in reversed(spoken[-_MOST_MESSAGES:]):
        left -= len(message.text)
        if left < 0:
            break
        kept.append({"role": message.role, "content": message.text})
    return kept[::-1]


def _messages(rows: Sequence[object]) -> Sequence[Message]:
    return [
        Message(row["id"], str(row.get("role"))[:16], _text(row.get("content")), is_final=_is_final(row))
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("id"), int)
    ]


def _is_final(row: Mapping[str, Any]) -> bool:
    return row.get("role") == "assistant" and not row.get("tool_calls")


def _text(value: object) -> str:
    return value[:_MOST_TEXT].strip() if isinstance(value, str) else ""
