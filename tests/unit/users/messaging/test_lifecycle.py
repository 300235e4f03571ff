"""What becomes of a message when its agent is suspended, ended, moved or changed: the table of decision 103."""

from dataclasses import replace

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import InstanceId
from hermesops.model.messaging.message import Incoming, IncomingState
from hermesops.users.messaging.inbound.routing import Agent
from hermesops.users.messaging.recovery.lifecycle import ENDED, SUSPENDED, ending, words
from hermesops.users.messaging.recovery.reconcile import GiveUp
from tests.support.suite.cases import each_case
from tests.unit.users.messaging.test_routing import MESSAGE

INSTANCE = InstanceId("11111111-1111-4111-8111-111111111111")
WAITING = replace(MESSAGE, state=IncomingState.QUEUED, instance_id=INSTANCE)
SENT = replace(WAITING, state=IncomingState.SENT, fence=3, tries=1)
TAKEN = replace(SENT, state=IncomingState.TAKEN)

RUNNING = Agent(INSTANCE, InstanceStatus.RUNNING)
"""Also while the agent is moved, resized, restored, rebooted, and while its release changes: the status stays."""

SUSPENSION = Agent(INSTANCE, InstanceStatus.SUSPENDED)
ANOTHER = Agent(InstanceId("22222222-2222-4222-8222-222222222222"), InstanceStatus.RUNNING)
BEGINNING = Agent(INSTANCE, InstanceStatus.PROVISIONING)


@each_case("incoming", [WAITING, SENT, TAKEN])
@each_case(
    ("agent", "has_socket", "why"),
    [
        (RUNNING, True, ""),
        (RUNNING, False, ""),
        (BEGINNING, False, ""),
        (SUSPENSION, False, SUSPENDED),
        (SUSPENSION, True, ""),
        (None, False, ENDED),
        (None, True, ""),
        (ANOTHER, False, ENDED),
    ],
)
def test_a_message_ends_with_its_agent_and_waits_for_one_that_comes_back(
    incoming: Incoming,
    agent: Agent | None,
    has_socket: bool,  # noqa: FBT001 - a case
    why: str,
) -> None:
    assert ending(incoming, agent, has_socket=has_socket) == (GiveUp(why) if why else None)


@each_case("why", [SUSPENDED, ENDED])
def test_the_user_reads_whether_the_agent_may_have_begun(why: str) -> None:
    assert "before it got this message" in words(WAITING, why)
    for under_way in (SENT, TAKEN):
        assert "may have done part of it" in words(under_way, why)
    assert words(WAITING, "agent away") == ""
