"""Sends what is queued for one messenger: in order in each chat, within the messenger's limits, others beside it."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace

import structlog

from hermesops.base.bell import Bell
from hermesops.base.waiting import cancel, pause
from hermesops.errors import HermesError
from hermesops.model.messaging.message import Outgoing, OutgoingState
from hermesops.model.messaging.messenger import Messenger
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.agent_files import AgentFiles
from hermesops.store.message_rows.outgoing import OutgoingMessages
from hermesops.users.messaging.outbound.budget import Budget
from hermesops.users.messaging.outbound.delivery import Away, Delivery, Limited, Refused, record_of

_LOOK_S = 0.5
_AGAIN_S = 1.0
_AT_ONCE = 16

log = structlog.get_logger()


@dataclass(frozen=True)
class Sender:
    """The sender of one messenger.

    Attributes:
        send: Sends a part once and says what became of it.
        bell: Rings when a part was queued.
        files: Of agents.
        monotonic: Seconds of a clock that never goes back, by which the budget counts.
    """

    messenger: Messenger
    outgoing: OutgoingMessages
    accounts: MessengerAccounts
    budget: Budget
    send: Callable[[Outgoing], Awaitable[Delivery]]
    bell: Bell
    files: AgentFiles
    monotonic: Callable[[], float] = time.monotonic
    _one_file: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(1), init=False)
    """A file has up to 25 MB, which are in memory while it is sent."""

    async def run(self) -> None:
        """Send what is due, each part once, until cancelled; an error of the database is logged, and tried again."""
        running: dict[str, asyncio.Task[None]] = {}
        try:
            while True:
                await self.begin_due(running)
                await self.bell.wait(_LOOK_S)
        finally:
            await cancel(*running.values())

    async def begin_due(self, running: dict[str, asyncio.Task[None]]) -> None:
        """Begin to send what is due and what the budget allows.

        Args:
            running: By chat, what is being sent; gets the new ones, and loses those that end.
        """
        for outgoing in await self._due():
            self._begin(outgoing, running)

    async def _due(self) -> tuple[Outgoing, ...]:
        try:
            return await asyncio.to_thread(self.outgoing.due, self.messenger)
        except HermesError as error:
            log.warning("outgoing_not_read", messenger=self.messenger.value, why=error.message)
            return ()

    def _begin(self, outgoing: Outgoing, running: dict[str, asyncio.Task[None]]) -> None:
        chat = outgoing.vendor_chat
        if chat in running or len(running) >= _AT_ONCE or not self.budget.take(chat, self.monotonic()):
            return
        running[chat] = asyncio.ensure_future(self._send(outgoing))
        running[chat].add_done_callback(lambda _: running.pop(chat, None))

    async def _send(self, outgoing: Outgoing) -> None:
        try:
            if not await asyncio.to_thread(self.outgoing.sending, outgoing.id):
                return
        except HermesError as error:
            log.warning("outgoing_not_begun", messenger=self.messenger.value, why=error.message)
            return
        held_s = self.budget.held_s(time.monotonic())  # since a part of another chat came back meanwhile
        delivery = Limited(held_s) if held_s > 0 else await self._deliver(outgoing)
        if isinstance(delivery, Limited) and delivery.is_for_all:
            self.budget.hold(self.monotonic() + delivery.after_s)
        while not await self._is_recorded(outgoing, delivery):
            await pause(_AGAIN_S)
        self.bell.ring()

    async def _deliver(self, outgoing: Outgoing) -> Delivery:
        """Send a part; one that is a file has its content only while it is sent, one file at a time."""
        if not outgoing.file_id:
            return await self.send(outgoing)
        async with self._one_file:
            try:
                file = await asyncio.to_thread(self.files.get, outgoing.file_id)
            except HermesError as error:
                return Away(error.message)
            return await self.send(replace(outgoing, file=file)) if file else Refused("the file is not kept any more")

    async def _is_recorded(self, outgoing: Outgoing, delivery: Delivery) -> bool:
        """Record what became of a part; a part of which that is not recorded would be sent again."""
        try:
            await asyncio.to_thread(self._record, outgoing, delivery)
        except HermesError as error:
            log.warning("outgoing_not_recorded", messenger=self.messenger.value, why=error.message)
            return False
        return True

    def _record(self, outgoing: Outgoing, delivery: Delivery) -> None:
        record = record_of(outgoing, delivery)
        if record.is_end:
            self.outgoing.end(outgoing.id, record.state, vendor_id=record.vendor_id, detail=record.detail)
        elif record.state is OutgoingState.WAITING:
            self.outgoing.wait(outgoing, record.detail)
        else:
            self.outgoing.again(outgoing.id, record.state, record.after, record.detail)
        if isinstance(delivery, Refused) and delivery.is_blocked:
            self._mark_blocked(outgoing)

    def _mark_blocked(self, outgoing: Outgoing) -> None:
        account = self.accounts.of_chat(outgoing.messenger, outgoing.vendor_chat)
        if account is not None:
            self.accounts.mark_blocked(outgoing.messenger, account.account, is_blocked=True)
