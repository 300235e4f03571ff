"""An agent's runs and transcript, through the relay, as the chat decides upon them.

Source: hermes-agent 0.19.0, ``gateway/platforms/api_server.py``, routes ``/v1/runs`` and ``/api/sessions``. A run loads
no history of its session (observed 2026-11-29), so each run gets it; newer agents take it as it is given, too.
"""

import re
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from hermesops.agents.relay.client import AgentEndedError, NoSuchThingError, RelayClient
from hermesops.base.foreign_json import in_thread
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.chat.transcript import AgentView, Message, Run, RunState, Transcript
from hermesops.model.chat.turn import Turn, TurnState, conversation_of, session_of
from hermesops.store.user_rows.files import ChatFile
from hermesops.users.chat.shown_events import timestamp_of
from hermesops.wire.foreign_text import one_line

_MOST_MESSAGES = 200
_MOST_CHARACTERS = 400_000
"""Bounds of the history that goes with a message; older messages are left out. The agent's memory keeps the rest."""

NO_ANSWER = "[There was no answer to this message: it was stopped or interrupted. Do not act on it.]"
"""Stands in the history for an answer that a stop or a crash prevented."""

_MOST_TEXT = 1_000_000
_MOST_ROWS = 10_000
"""Messages of a session that are read, the newest; agents begin a new session long before."""

_MOST_SESSIONS = 200
_SOURCE = "api_server"
"""What hermes-agent 0.19.0 notes as the source of its API's sessions; jobs and messengers have others."""

_TITLE = 120
_IMAGE_NOTE = "\n[screenshot]"
"""What hermes-agent 0.19.0 stores for each image of a message, behind its text."""

_RUN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")
"""Names that the relay takes in a path."""


@dataclass(frozen=True)
class Conversation:
    """A conversation as the agent lists it.

    Attributes:
        last_at: ``None`` where the agent does not say.
    """

    name: str
    title: str = field(repr=False)
    last_at: datetime | None


class AgentRuns:
    """Begins, follows and stops runs of users' agents."""

    def __init__(self, relay: RelayClient) -> None:
        self._relay = relay

    async def view(self, turn: Turn) -> AgentView | None:
        """Observe a turn at its agent; ``None`` where the agent does not answer, or refuses to.

        Raises:
            AgentEndedError: There is no such agent any more, or it is suspended.
        """
        try:
            run = await self._run(turn) if turn.run_id else None
            if run is not None:
                return AgentView(Transcript(), run)
            is_sent = turn.state is not TurnState.QUEUED and not turn.run_id
            active = await self._active_runs(turn.instance_id) if is_sent else 0
            transcript = await self.transcript(turn.instance_id, turn.session)
        except AgentEndedError:
            raise
        except (UnavailableError, RefusedError):
            return None
        return AgentView(transcript, run, active)

    async def conversations(self, agent: str) -> Mapping[str, Conversation]:
        """Conversations of the web chat that an agent has, by name; raises as ``transcript``."""
        answer = await self._relay.get(agent, f"/api/sessions?source={_SOURCE}&limit={_MOST_SESSIONS}")
        rows = answer.get("data")
        taken = rows[:_MOST_SESSIONS] if isinstance(rows, list) else []
        listed = [_conversation(row) for row in taken if isinstance(row, dict)]
        return {each.name: each for each in listed if each is not None}

    async def forget(self, agent: str, conversation: str) -> None:
        """Delete a conversation at the agent; raises as ``RelayClient.send``."""
        await self._relay.send("DELETE", agent, f"/api/sessions/{session_of(conversation)}")

    async def transcript(self, agent: str, session: str) -> Transcript:
        """Read a session's newest messages; none where the agent knows no such session.

        Raises:
            UnavailableError: The agent does not answer.
        """
        try:
            answer = await self._relay.get(agent, f"/api/sessions/{session}/messages")
        except NoSuchThingError:
            return Transcript()
        rows = answer.get("data")
        newest = rows[-_MOST_ROWS:] if isinstance(rows, list) else []
        return Transcript(await in_thread(lambda: tuple(_messages(newest))))

    async def start(self, turn: Turn, transcript: Transcript, files: Sequence[ChatFile], *, until: float) -> str:
        """Send the turn's message; returns the name of its run.

        Args:
            files: Images of the message.
            until: Seconds since 1970 after which the agent must not get it.

        Raises:
            AgentBusyError: The agent did not get it.
            UnknownOutcomeError: The agent may have got it.
            RefusedError: The agent refuses it.
        """
        body = {
            "input": [{"role": "user", "content": content_of(turn.message, files)}] if files else turn.message,
            "session_id": turn.session,
            "conversation_history": history_of(transcript),
        }
        answer = await self._relay.send("POST", turn.instance_id, "/v1/runs", body, key=turn.id, until=until)
        run_id = answer.get("run_id")
        if not isinstance(run_id, str) or not _RUN.fullmatch(run_id):
            raise UnknownOutcomeError("the agent names no run")
        return run_id

    @asynccontextmanager
    async def events(self, turn: Turn) -> AsyncIterator[AsyncIterator[Mapping[str, Any]]]:
        """Read the events of the turn's run, once; raises as ``RelayClient.events``."""
        async with self._relay.events(turn.instance_id, f"/v1/runs/{turn.run_id}/events") as events:
            yield events

    async def stop(self, turn: Turn) -> None:
        """Stop the turn's run; raises as ``RelayClient.send``."""
        await self._relay.send("POST", turn.instance_id, f"/v1/runs/{turn.run_id}/stop", {})

    async def approve(self, turn: Turn, choice: str, *, until: float) -> None:
        """Answer the request for approval that the turn's run waits for; raises as ``RelayClient.send``.

        Args:
            until: Seconds since 1970 after which the agent must not get it: it might wait for another one then.
        """
        path = f"/v1/runs/{turn.run_id}/approval"
        await self._relay.send("POST", turn.instance_id, path, {"choice": choice}, until=until)

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
    return Run(state, _text(answer.get("output")), one_line(_text(answer.get("error"))))


def history_of(transcript: Transcript) -> Sequence[Mapping[str, str]]:
    """The newest spoken messages of a transcript, as a run takes them; tools' messages are left out. Pure.

    A question that got no answer is followed by a note: hermes-agent 0.19.0 puts two messages of the user into one, and
    would do what the user stopped (observed 2026-11-29).
    """
    kept: list[Mapping[str, str]] = []
    left = _MOST_CHARACTERS
    for message in reversed(_with_notes(spoken_in(transcript))[-_MOST_MESSAGES:]):
        left -= len(message["content"])
        if left < 0:
            break
        kept.append(message)
    return kept[::-1]


def spoken_in(transcript: Transcript) -> Sequence[Message]:
    """What user and agent said; tools' messages are left out. Pure."""
    return [m for m in transcript.messages if m.text and (m.role == "user" or (m.role == "assistant" and m.is_final))]


def _with_notes(messages: Sequence[Message]) -> Sequence[Mapping[str, str]]:
    noted: list[Mapping[str, str]] = []
    for message in messages:
        if message.role == "user" and noted and noted[-1]["role"] == "user":
            noted.append({"role": "assistant", "content": NO_ANSWER})
        noted.append({"role": message.role, "content": message.text})
    if noted and noted[-1]["role"] == "user":
        noted.append({"role": "assistant", "content": NO_ANSWER})
    return noted


def content_of(message: str, images: Sequence[ChatFile]) -> Sequence[Mapping[str, object]]:
    """A message with images, as models take it: the text first. Pure."""
    shown = [
        {"type": "image_url", "image_url": {"url": f"data:{file.media_type};base64,{b64encode(file.content).decode()}"}}
        for file in images
    ]
    return [{"type": "text", "text": message}, *shown]


def _messages(rows: Sequence[object]) -> Sequence[Message]:
    return [
        Message(
            row["id"],
            str(row.get("role"))[:16],
            _text(row.get("content")),
            is_final=_is_final(row),
            at=timestamp_of(row.get("timestamp")),
        )
        for row in rows
        if isinstance(row, dict) and isinstance(row.get("id"), int)
    ]


def _is_final(row: Mapping[str, Any]) -> bool:
    return row.get("role") == "assistant" and not row.get("tool_calls")


def _text(value: object) -> str:
    """Text of a message, plain or in parts; images are left out, and the notes that stand for them."""
    if isinstance(value, list):
        parts = [part.get("text") for part in value[:_MOST_MESSAGES] if isinstance(part, dict)]
        value = "\n".join(part for part in parts if isinstance(part, str))
    return _without_notes(value[:_MOST_TEXT]) if isinstance(value, str) else ""


def _without_notes(text: str) -> str:
    """A text without the notes behind it. An agent may write a hundred thousand of them, so each is looked at once."""
    text = text.rstrip()
    end = len(text)
    while text.endswith(_IMAGE_NOTE, 0, end):
        end -= len(_IMAGE_NOTE)
    return text[:end].strip()


def _conversation(row: Mapping[str, Any]) -> Conversation | None:
    id_ = row.get("_lineage_root_id") or row.get("id")  # a long session goes on in a new one
    name = conversation_of(id_) if isinstance(id_, str) else None
    if name is None:
        return None
    title = row.get("title") or row.get("preview")
    last_at = timestamp_of(row.get("last_active")) or timestamp_of(row.get("started_at"))
    return Conversation(name, one_line(title, longest=_TITLE) if isinstance(title, str) else "", last_at)
