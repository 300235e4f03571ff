"""Whom a message concerns: the account that the messenger vouches for decides, and nothing that is written."""

from dataclasses import replace
from datetime import UTC, datetime

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId, UserId
from hermesops.model.messaging.message import Incoming, IncomingKind, IncomingState, LinkedAccount
from hermesops.model.messaging.messenger import Messenger
from hermesops.users.messaging.inbound.routing import (
    CONNECTED,
    NO_AGENT,
    NO_TEXT,
    STRANGER,
    SUSPENDED,
    Agent,
    Link,
    Mark,
    Queue,
    Reply,
    Route,
    Unlink,
    route,
)
from tests.support.suite.cases import each_case

NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
ADA, INSTANCE, CODE = UserId("ada"), InstanceId("i-1"), "ABCDEFGH23456789"
ACCOUNT = LinkedAccount(Messenger.TELEGRAM, "111", "111", ADA, NOW)
RUNNING = Agent(INSTANCE, InstanceStatus.RUNNING)
MESSAGE = Incoming(
    id=1,
    messenger=Messenger.TELEGRAM,
    vendor_id="9",
    kind=IncomingKind.MESSAGE,
    account="111",
    vendor_chat="111",
    text="hello",
    display="Ada",
    state=IncomingState.RECEIVED,
    user_id=None,
    instance_id=None,
    fence=0,
    tries=0,
    received_at=NOW,
    sent_at=None,
)


@each_case(
    ("text", "account", "agent", "decision"),
    [
        ("hello", ACCOUNT, RUNNING, Queue(ADA, INSTANCE)),
        ("hello", ACCOUNT, replace(RUNNING, status=InstanceStatus.PROVISIONING), Queue(ADA, INSTANCE)),
        ("/approve", ACCOUNT, RUNNING, Queue(ADA, INSTANCE, is_command=True)),
        ("/approve session", ACCOUNT, RUNNING, Queue(ADA, INSTANCE, is_command=True)),
        ("/approve all of it, please", ACCOUNT, RUNNING, Queue(ADA, INSTANCE)),
        ("/start x", ACCOUNT, RUNNING, Queue(ADA, INSTANCE)),
        ("hello", None, None, Reply(STRANGER, "stranger", is_once=True)),
        ("hello", ACCOUNT, None, Reply(NO_AGENT, "no agent")),
        ("hello", ACCOUNT, replace(RUNNING, status=InstanceStatus.SUSPENDED), Reply(SUSPENDED, "suspended")),
        ("  ", ACCOUNT, RUNNING, Reply(NO_TEXT, "no text")),
        (f"/start {CODE}", None, None, Link(CODE)),
        (f"/start {CODE}", ACCOUNT, RUNNING, Link(CODE)),
        (f"/link@our_bot {CODE.lower()} ", None, None, Link(CODE.lower())),
        ("/start", ACCOUNT, RUNNING, Reply(CONNECTED, "start")),
        ("/start", None, None, Reply(STRANGER, "stranger", is_once=True)),
        ("/unlink", ACCOUNT, RUNNING, Unlink(ADA)),
        ("/unlink", None, None, Reply(STRANGER, "stranger", is_once=True)),
    ],
)
def test_each_message_goes_where_it_belongs(
    text: str, account: LinkedAccount | None, agent: Agent | None, decision: Route
) -> None:
    assert route(replace(MESSAGE, text=text), account, agent) == decision


@each_case(("kind", "is_blocked"), [(IncomingKind.BLOCKED, True), (IncomingKind.UNBLOCKED, False)])
def test_a_blocked_bot_is_noted_whoever_the_author_is(kind: IncomingKind, is_blocked: bool) -> None:  # noqa: FBT001 - a case
    assert route(replace(MESSAGE, kind=kind), None, None) == Mark(is_blocked)
