"""Decides what becomes of a user's message when the agent is suspended, ended, moved or changed. Pure.

A message that waits or that an agent is at outlives all that brings the agent back: a move, a resize, a restore, a
release and its rollback, a reboot. The agent's transcript then says what became of it. A suspension and an end bring
nobody back, so the user is told at once instead of after a day.
"""

from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.messaging.message import UNDER_WAY, Incoming
from hermesops.users.messaging.inbound.routing import Agent
from hermesops.users.messaging.recovery.reconcile import GiveUp

SUSPENDED = "suspended"
ENDED = "agent ended"

_NOT_BEGUN = {
    SUSPENDED: "Your agent was suspended before it got this message. Send it again once your agent runs.",
    ENDED: "Your agent was ended before it got this message.",
}
_UNDER_WAY = {
    SUSPENDED: "Your agent was suspended while it was at this message. It may have done part of it.",
    ENDED: "Your agent was ended while it was at this message. It may have done part of it.",
}


def ending(incoming: Incoming, agent: Agent | None, *, has_socket: bool) -> GiveUp | None:
    """Whether a message ends with its agent; ``None`` where it waits on.

    Args:
        incoming: A message that has not ended.
        agent: The present agent of its user; ``None`` for none.
        has_socket: Whether the message's agent has a socket: it may still be at work.
    """
    if has_socket:
        return None
    if agent is None or agent.instance_id != incoming.instance_id:
        return GiveUp(ENDED)
    return GiveUp(SUSPENDED) if agent.status is InstanceStatus.SUSPENDED else None


def words(incoming: Incoming, why: str) -> str:
    """The line for the user of a message that ended with its agent; empty for another reason."""
    return (_UNDER_WAY if incoming.state in UNDER_WAY else _NOT_BEGUN).get(why, "")
