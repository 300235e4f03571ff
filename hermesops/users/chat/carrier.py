"""Carries turns: observes each one's agent, does the decided step, and copies the run's events for the pages.

One process carries a turn at a time; its lease ends by itself, so that another one goes on where it died.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from datetime import datetime, timedelta
from typing import Any

import structlog

from hermesops.agents.relay.client import AgentBusyError, NoSuchThingError
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.chat.transcript import AgentView
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.store.user_rows.turns import Turns
from hermesops.users.chat.agent_runs import AgentRuns
from hermesops.users.chat.decide import Finish, Follow, Send, Taken, Wait, next_step
from hermesops.users.chat.events import EventLog
from hermesops.wire.foreign_text import one_line

LEASE = timedelta(seconds=30)
_RENEW_S = 10.0
_AGAIN_S = 1.0
"""Seconds between two looks at an agent that did not answer, or did not get on."""

_LOOK_S = 10.0
"""Seconds without an event after which the run itself is looked at."""

_MOST_TEXT = 64_000
"""Characters of one event's text."""

log = structlog.get_logger()


class TurnCarrier:
    """Carries turns to their end.

    Args:
        name: Of this process, unique among those that carry turns.
        clock: The database's.
    """

    def __init__(
        self, turns: Turns, runs: AgentRuns, events: EventLog, name: str, clock: Callable[[], datetime]
    ) -> None:
        self._turns = turns
        self._runs = runs
        self._events = events
        self._name = name
        self._clock = clock

    async def carry(self, turn_id: str) -> None:
        """Carry a turn until it has ended, or another process carries it; may be killed at any moment."""
        try:
            async with self._lease(turn_id) as carried:
                turn = carried
                while turn is not None and not turn.has_ended:
                    turn = await self._step(turn)
        except Exception:  # a bug costs one turn its carrier; the sweep finds another one
            log.exception("turn_not_carried", turn=turn_id)

    @asynccontextmanager
    async def _lease(self, turn_id: str) -> AsyncIterator[Turn | None]:
        turn = await asyncio.to_thread(self._turns.carry, turn_id, self._name, LEASE)
        renewing = asyncio.ensure_future(self._renew(turn_id))
        try:
            yield turn
        finally:
            await cancel(renewing)
            with suppress(HermesError):
                await asyncio.to_thread(self._turns.release, turn_id, self._name)

    async def _renew(self, turn_id: str) -> None:
        while True:
            await pause(_RENEW_S)
            with suppress(UnavailableError):
                await asyncio.to_thread(self._turns.carry, turn_id, self._name, LEASE)

    async def _step(self, turn: Turn) -> Turn | None:
        """Do the next step; returns the turn as it is now, ``None`` where another process carries it."""
        view = await self._runs.view(turn)
        match next_step(turn, view, await asyncio.to_thread(self._clock)):
            case Send(mark):
                return await self._send(turn, view, mark)
            case Taken():
                return await asyncio.to_thread(self._turns.running, turn.id, self._name, "")
            case Follow():
                await self._follow(turn)
                return turn
            case Finish(state, text, detail):
                return await self._finish(turn, state, text, detail)
            case Wait():
                await pause(_AGAIN_S)
                return turn

    async def _send(self, turn: Turn, view: AgentView | None, mark: int) -> Turn | None:
        sending = await asyncio.to_thread(self._turns.sending, turn.id, self._name, mark)
        if sending is None or view is None:
            return None
        try:
            run_id = await self._runs.start(sending, view.transcript)
        except AgentBusyError:
            await pause(_AGAIN_S)
            return await asyncio.to_thread(self._turns.queued_again, turn.id, self._name)
        except (UnknownOutcomeError, UnavailableError):
            return sending  # the transcript will tell
        except RefusedError as refused:
            return await self._finish(turn, TurnState.FAILED, "", f"the agent refused the message: {refused.message}")
        return await asyncio.to_thread(self._turns.running, turn.id, self._name, run_id)

    async def _follow(self, turn: Turn) -> None:
        """Copy the run's events until its stream ends or is silent; the run's state is looked at afterwards."""
        try:
            async with self._runs.events(turn) as events:
                await self._copy(turn, events)
        except (NoSuchThingError, UnavailableError, RefusedError, UnknownOutcomeError) as error:
            log.info("turn_events_ended", turn=turn.id, why=type(error).__name__)
            await pause(_AGAIN_S)

    async def _copy(self, turn: Turn, events: AsyncIterator[Mapping[str, Any]]) -> None:
        following: asyncio.Future[Mapping[str, Any]] = asyncio.ensure_future(anext(events, {}))
        try:
            while True:
                done, _ = await asyncio.wait({following}, timeout=_LOOK_S)
                if not done:
                    if await self._has_ended(turn):
                        return
                    continue
                if not (event := following.result()):
                    return
                if shown := shown_event(event):
                    await self._events.add(turn.id, *shown)
                following = asyncio.ensure_future(anext(events, {}))
        finally:
            await cancel(following)

    async def _has_ended(self, turn: Turn) -> bool:
        """Whether the agent says that the run has ended, though its events do not: another reader had them."""
        view = await self._runs.view(turn)
        step = next_step(turn, view, await asyncio.to_thread(self._clock))
        return isinstance(step, Finish)

    async def _finish(self, turn: Turn, state: TurnState, text: str, detail: str) -> Turn | None:
        ended = await asyncio.to_thread(self._turns.end, turn.id, self._name, state, detail)
        if ended is not None:
            await self._events.add(turn.id, state.value, {"text": text} if text else {"detail": detail})
            log.info("turn_ended", turn=turn.id, instance=turn.instance_id, state=state.value)
        return ended


def shown_event(event: Mapping[str, Any]) -> tuple[str, Mapping[str, object]] | None:
    """The event that pages get for one of a run's; ``None`` for none. Pure.

    Source: hermes-agent 0.19.0, ``api_server.py``, ``_make_run_event_callback`` and ``_handle_runs``.
    """
    match event.get("event"):
        case "message.delta":
            return "delta", {"text": _text(event.get("delta"))}
        case "tool.started":
            preview = _line(event.get("preview"))
            return "tool", {"name": _line(event.get("tool")), "preview": preview, "state": "running"}
        case "tool.completed":
            state = "failed" if event.get("error") is True else "done"
            return "tool", {"name": _line(event.get("tool")), "state": state}
        case "approval.request":
            return "approval", {
                "command": _text(event.get("command")),
                "reason": _line(event.get("description")),
                "choices": _choices(event.get("choices")),
            }
        case "approval.responded":
            return "resolved", {"choice": _line(event.get("choice"))}
    return None


CHOICES = ("once", "session", "always", "deny")
"""Answers to a request for approval, as hermes-agent takes them."""


def _choices(value: object) -> list[str]:
    offered = value if isinstance(value, list) else []
    return [choice for choice in CHOICES if choice in offered] or ["once", "deny"]


def _text(value: object) -> str:
    return value[:_MOST_TEXT] if isinstance(value, str) else ""


def _line(value: object) -> str:
    return one_line(value) if isinstance(value, str) else ""
