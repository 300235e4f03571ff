"""Carries turns: observes each one's agent, does the decided step, and copies the run's events for the pages.

One process carries a turn at a time; its lease ends by itself, so that another one goes on where it died.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeVar

import structlog

from hermesops.agents.relay.client import AgentBusyError, AgentEndedError
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError, RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.chat.transcript import AgentView
from hermesops.model.chat.turn import Turn, TurnState
from hermesops.store.user_rows.approvals import TurnApprovals
from hermesops.store.user_rows.files import ChatFiles
from hermesops.store.user_rows.turns import Turns
from hermesops.users.chat.agent_runs import AgentRuns
from hermesops.users.chat.decide import UNANSWERED, Finish, Follow, Send, Stop, Taken, Wait, next_step
from hermesops.users.chat.events import EventLog
from hermesops.users.chat.shown_events import delta_in, request_in, timestamp_in, tool_in

LEASE = timedelta(seconds=20)
_RENEW_S = 5.0
_AGAIN_S = 1.0
"""Seconds between two looks at an agent that did not answer, or did not get on."""

_LOOK_S = 10.0
"""Seconds without an event after which the run itself is looked at."""

_GATHER_S = 0.04
"""Seconds from a piece of the answer on in which others are put to it: one event each would be thousands."""

_GATHERED = 2_000
"""Characters after which they are passed on at once."""

_STALLED_S = 5.0
"""Seconds after which a recorded intent to send counts as old, and the relay delivers the message no more: another
process may have taken the turn."""

ENDED = "your agent does not run any more"

log = structlog.get_logger()

T = TypeVar("T")


@dataclass(frozen=True)
class ChatRows:
    """The rows that the chat works on."""

    turns: Turns
    approvals: TurnApprovals
    files: ChatFiles


class TurnCarrier:
    """Carries turns to their end.

    Args:
        name: Of this process, unique among those that carry turns.
        clock: The database's.
    """

    def __init__(
        self, rows: ChatRows, runs: AgentRuns, events: EventLog, name: str, clock: Callable[[], datetime]
    ) -> None:
        self._rows = rows
        self._turns = rows.turns
        self._runs = runs
        self._events = events
        self._name = name
        self._clock = clock

    async def carry(self, turn_id: str) -> None:
        """Carry a turn until it has ended, or another process carries it; may be killed at any moment."""
        renewing: asyncio.Future[None] | None = None
        try:
            while turn := await self._of_rows(self._turns.carry, turn_id, self._name, LEASE):
                if renewing is None:
                    renewing = asyncio.ensure_future(self._renew(turn_id))
                    self._events.begin(turn_id, turn.carries)
                    await self._show_requests(turn)
                await self._step(turn)
        except Exception:  # a bug costs one turn its carrier; the sweep finds another one
            log.exception("turn_not_carried", turn=turn_id)
        finally:
            if renewing is not None:
                await cancel(renewing)
                self._events.leave(turn_id)
            with suppress(HermesError):
                await asyncio.to_thread(self._turns.release, turn_id, self._name)

    async def _of_rows(self, method: Callable[..., T], *arguments: object) -> T:
        """Call a method of the rows, again while the database is away: nobody else can take the turn meanwhile.

        Each such method may be repeated though its first transaction was committed and the answer was lost.
        """
        while True:
            try:
                return await asyncio.to_thread(method, *arguments)
            except UnavailableError as error:
                log.info("turn_waits_for_rows", carrier=self._name, why=type(error).__name__)
                await pause(_AGAIN_S)

    async def _renew(self, turn_id: str) -> None:
        while True:
            await pause(_RENEW_S)
            with suppress(UnavailableError):
                await asyncio.to_thread(self._turns.carry, turn_id, self._name, LEASE)

    async def _show_requests(self, turn: Turn) -> None:
        """Show what a process before this one was asked for approval."""
        for approval in await self._of_rows(self._rows.approvals.list, turn.id):
            if approval.is_waiting:
                self._events.add(turn.id, "approval", {"id": str(approval.number), **approval.request})

    async def _step(self, turn: Turn) -> None:
        """Do the next step of one turn.

        The moment is taken before the agent is looked at: a message that is not in a transcript of before a long wait
        may have arrived meanwhile.
        """
        now = await self._of_rows(self._clock)
        try:
            view = await self._runs.view(turn)
        except AgentEndedError:
            await self._finish(turn, Finish(TurnState.FAILED, detail=ENDED))
            return
        match next_step(turn, view, now):
            case Send(mark):
                await self._send(turn, view, mark)
            case Taken():
                await self._of_rows(self._turns.running, turn.id, self._name, "")
            case Follow():
                await self._follow(turn)
            case Stop():
                await self._stop(turn)
                await self._follow(turn)
            case Finish() as finish:
                await self._finish(turn, finish)
            case Wait():
                await pause(_AGAIN_S)

    async def _send(self, turn: Turn, view: AgentView | None, mark: int) -> None:
        images = [file for file in await self._of_rows(self._rows.files.of_turn, turn.id) if file.is_image]
        began, until = time.monotonic(), time.time() + _STALLED_S
        sending = await self._of_rows(self._turns.sending, turn.id, self._name, mark)
        if sending is None or view is None or time.monotonic() - began > _STALLED_S:
            return
        try:
            run_id = await self._runs.start(sending, view.transcript, images, until=until)
        except AgentBusyError:
            await self._of_rows(self._turns.queued_again, turn.id, self._name)
            await pause(_AGAIN_S)
        except (UnknownOutcomeError, UnavailableError):
            await pause(_AGAIN_S)  # the transcript will tell
        except RefusedError as refused:
            detail = f"the agent refused the message: {refused.message}"
            await self._finish(sending, Finish(TurnState.FAILED, detail=detail))
        else:
            running = await self._of_rows(self._turns.running, turn.id, self._name, run_id)
            if running is not None and running.stop_at is None:
                await self._follow(running)

    async def _stop(self, turn: Turn) -> None:
        with suppress(HermesError):
            await self._runs.stop(turn)

    async def _follow(self, turn: Turn) -> None:
        """Copy the run's events until its stream ends or is silent; the run's state is looked at afterwards."""
        try:
            async with self._runs.events(turn) as events:
                await self._copy(turn, events)
        except HermesError as error:
            log.info("turn_events_ended", turn=turn.id, why=type(error).__name__)
            await pause(_AGAIN_S)

    async def _copy(self, turn: Turn, events: AsyncIterator[Mapping[str, Any]]) -> None:
        following, gathered, due_at = _next(events), "", 0.0
        try:
            while True:
                wait_s = max(0.0, due_at - time.monotonic()) if gathered else _LOOK_S
                done, _ = await asyncio.wait({following}, timeout=wait_s)
                if not done and gathered:
                    gathered = self._pass_on(turn, gathered)
                    continue
                if not done:
                    if await self._needs_a_look(turn):
                        return
                    continue
                event = following.result()
                delta = delta_in(event)
                if delta is not None:
                    due_at = due_at if gathered else time.monotonic() + _GATHER_S  # of the first piece, not the last
                    gathered += delta
                if gathered and (delta is None or len(gathered) > _GATHERED or time.monotonic() > due_at):
                    gathered = self._pass_on(turn, gathered)
                if not event:
                    return
                if delta is None:
                    await self._show(turn, event)
                following = _next(events)
        finally:
            await cancel(following)
            if gathered:
                self._pass_on(turn, gathered)

    def _pass_on(self, turn: Turn, text: str) -> str:
        """Pass pieces of the answer on; of a later carrier none: what lies between is lost, and the end has it all."""
        if turn.carries == 1:
            self._events.add(turn.id, "delta", {"text": text})
        return ""

    async def _show(self, turn: Turn, event: Mapping[str, Any]) -> None:
        await self._settle(turn)
        if tool := tool_in(event):
            self._events.add(turn.id, "tool", tool)
        elif request := request_in(event):
            await self._show_request(turn, request, timestamp_in(event))

    async def _show_request(self, turn: Turn, request: Mapping[str, object], asked_at: datetime | None) -> None:
        """Show a request for approval; none that could not be recorded: later, an answer might go to another one.

        It counts from the moment at which the agent asked: relay or carrier may have hung since.
        """
        try:
            number = await asyncio.to_thread(self._rows.approvals.ask, turn.id, request, asked_at)
        except UnavailableError as error:
            log.warning("request_not_shown", turn=turn.id, why=error.message)
            return
        if number is not None:
            self._events.add(turn.id, "approval", {"id": str(number), **request})

    async def _settle(self, turn: Turn) -> None:
        """Show which requests for approval were answered, or by nobody in time; later, while the database is away."""
        shown = self._events.unresolved(turn.id)
        if not shown:
            return
        try:
            approvals = await asyncio.to_thread(self._rows.approvals.list, turn.id)
        except UnavailableError:
            return
        for approval in approvals:
            if str(approval.number) in shown and not approval.is_waiting:
                choice = approval.choice or "expired"
                self._events.add(turn.id, "resolved", {"id": str(approval.number), "choice": choice})

    async def _needs_a_look(self, turn: Turn) -> bool:
        """Whether the run has ended though its events do not say so, or the user wants it stopped.

        Unknown while the database is away: pieces of the answer go on without it.
        """
        await self._settle(turn)
        try:
            now = await asyncio.to_thread(self._clock)
            present = await asyncio.to_thread(self._turns.get, turn.user_id, turn.id)
        except UnavailableError:
            return False
        if present is None or present.has_ended:
            return True
        with suppress(AgentEndedError):
            view = await self._runs.view(present)
            return isinstance(next_step(present, view, now), Finish | Stop)
        return True

    async def _finish(self, turn: Turn, finish: Finish) -> None:
        if finish.detail == UNANSWERED and turn.run_id:
            await self._stop(turn)
        ended = await self._of_rows(self._turns.end, turn.id, self._name, finish.state, finish.detail)
        if ended is None:
            return
        self._events.add(turn.id, finish.state.value, shown_end(finish))
        log.info("turn_ended", turn=turn.id, instance=turn.instance_id, state=finish.state.value)
        await self._of_rows(self._rows.approvals.forget, turn.id)


def shown_end(finish: Finish) -> Mapping[str, object]:
    """The data of a turn's last event. Pure."""
    match finish.state:
        case TurnState.DONE:
            return {"text": finish.text}
        case TurnState.STOPPED:
            return {}
        case _:
            return {"detail": finish.detail}


def _next(events: AsyncIterator[Mapping[str, Any]]) -> asyncio.Future[Mapping[str, Any]]:
    return asyncio.ensure_future(anext(events, {}))
