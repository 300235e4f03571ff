"""Looks at what messengers reported and gives each message to whom it concerns, once."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import structlog

from hermesops.base.bell import Bell
from hermesops.errors import HermesError
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import Incoming, IncomingKind, IncomingState, LinkedAccount
from hermesops.store.message_rows.accounts import MessengerAccounts
from hermesops.store.message_rows.incoming import IncomingMessages
from hermesops.store.message_rows.outgoing import Draft, OutgoingMessages
from hermesops.store.user_rows.accounts import UserAccounts
from hermesops.users.messaging.inbound.routing import (
    CONNECTED,
    DISCONNECTED,
    INVALID_CODE,
    Agent,
    Fail,
    Link,
    Mark,
    Queue,
    Reply,
    Route,
    Unlink,
    route,
)
from hermesops.users.messaging.outbound.reports import failure_of
from hermesops.users.messaging.texts.parts import line_of

_LOOK_S = 1.0

log = structlog.get_logger()


@dataclass(frozen=True)
class Router:
    """The router of all messengers.

    Attributes:
        heard: Rings when a messenger reported something; ``queued`` and ``answered`` are rung for what comes of it.
        fence_of: The fence of an agent's open socket that takes messages; 0 where it has none here.
        deliver: Writes a message that is under way to that socket; called in a thread.
    """

    accounts: MessengerAccounts
    agents: UserAccounts
    incoming: IncomingMessages
    outgoing: OutgoingMessages
    heard: Bell
    queued: Bell
    answered: Bell
    fence_of: Callable[[InstanceId], int] = lambda _: 0
    deliver: Callable[[Incoming], None] = lambda _: None

    async def run(self) -> None:
        """Route what messengers reported, at each ring and every second, until cancelled."""
        while True:
            try:
                if await asyncio.to_thread(self.route_all):
                    self.queued.ring()
                    self.answered.ring()
            except HermesError as error:
                log.warning("messages_not_routed", why=error.message)
            await self.heard.wait(_LOOK_S)

    def route_all(self) -> int:
        """Route all reports that are there; returns their number. Each step of it may be repeated."""
        number = 0
        while reports := self.incoming.received():
            for incoming in reports:
                self._carry_out(incoming, *self._decide(incoming))
            number += len(reports)
        return number

    def _decide(self, incoming: Incoming) -> tuple[Route, LinkedAccount | None]:
        account = self.accounts.get(incoming.messenger, incoming.account)
        agent = agent_of(self.agents, account.user_id) if account else None
        return route(incoming, account, agent), account

    def _carry_out(self, incoming: Incoming, decision: Route, account: LinkedAccount | None) -> None:
        user_id = account.user_id if account else None
        if incoming.kind is IncomingKind.MESSAGE and account and account.blocked_at:  # who writes has not blocked it
            self.accounts.mark_blocked(incoming.messenger, incoming.account, is_blocked=False)
        match decision:
            case Queue(owner, instance_id, is_command):
                if is_command or not self._is_sent(incoming, owner, instance_id):
                    self.incoming.queue(incoming.id, owner, instance_id, is_command=is_command)
                return
            case Link(code):
                linked = self.accounts.link(
                    code, incoming.messenger, incoming.account, incoming.vendor_chat, incoming.display
                )
                user_id = linked or user_id
                self._reply(incoming, CONNECTED if linked else INVALID_CODE)
                detail = "linked" if linked else "invalid code"
            case Unlink(owner):
                self._reply(incoming, DISCONNECTED)
                self.accounts.unlink(owner, incoming.messenger)
                detail = "unlinked"
            case Mark(is_blocked):
                self.accounts.mark_blocked(incoming.messenger, incoming.account, is_blocked=is_blocked)
                detail = "blocked" if is_blocked else "unblocked"
            case Fail(number, code):
                detail = self._fail(incoming, number, code)
            case Reply(text, detail, is_once):
                self._reply(incoming, text, is_once=is_once)
        self.incoming.end(incoming.id, IncomingState.HANDLED, detail, user_id=user_id)

    def _is_sent(self, incoming: Incoming, owner: UserId, instance_id: InstanceId) -> bool:
        """Whether a message could go to its agent's socket at once: that is a write to the disk less than the queue."""
        fence = self.fence_of(instance_id)
        sent = self.incoming.send_received(incoming.id, owner, instance_id, fence) if fence else None
        if sent is not None:
            self.deliver(sent)
        return sent is not None

    def _fail(self, incoming: Incoming, number: int, code: str) -> str:
        """Record that a part failed which the messenger had taken; returns a word for operators."""
        part = self.outgoing.taken(number, incoming.messenger, incoming.vendor_id)
        if part is None:
            return "not ours"
        record, is_blocked = failure_of(part, code)
        self.outgoing.fail(part, record.state, record.after, record.detail)
        account = self.accounts.of_chat(part.messenger, part.vendor_chat) if is_blocked else None
        if account is not None:
            self.accounts.mark_blocked(account.messenger, account.account, is_blocked=True)
        return f"out-{number} is {record.state}"

    def _reply(self, incoming: Incoming, text: str, *, is_once: bool = False) -> None:
        """Queue a line of the platform's. ``is_once``: at most one a day to an account, however much it writes."""
        day = datetime.now(UTC).date().isoformat()
        last = f"{incoming.account}/{day}" if is_once else incoming.vendor_id
        origin, parts = f"platform/{incoming.messenger.value}/{last}", line_of(incoming.messenger, text)
        self.outgoing.add(Draft(origin, incoming.messenger, incoming.vendor_chat, parts, None, incoming.id))


def agent_of(agents: UserAccounts, user_id: UserId) -> Agent | None:
    """The present agent of a user; ``None`` for none."""
    row = agents.of_user(user_id)
    return Agent(row.instance_id, row.status) if row else None
