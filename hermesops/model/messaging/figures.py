"""Figures of messengers that operators see: counts of users, and states of agents' sockets."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermesops.model.ids import InstanceId


@dataclass(frozen=True)
class MessengerUsers:
    """Users of one messenger.

    Attributes:
        linked: Those with an account that has not blocked the bot.
        blocked: Those with an account that blocked it within the last day.
        delivered: Those who got an answer in the last minutes.
        undelivered: Those with an answer that has waited for minutes, for whatever reason but their own silence.
        uncertain: Those with an answer of the last minutes of which the messenger did not say that it has it.
        waiting: Those with an answer that waits for their next message.
        refused: Those with an answer that waits because the messenger does not take the bot's token.
    """

    messenger: str
    linked: int = 0
    blocked: int = 0
    delivered: int = 0
    undelivered: int = 0
    uncertain: int = 0
    waiting: int = 0
    refused: int = 0


@dataclass(frozen=True)
class MessagingFigures:
    """Messages and sockets as the registry shows them.

    Attributes:
        unrouted: Accounts with a message for a minute that the connector has not looked at.
        held: Users with a message for a minute that their agent's open socket was not given, though the agent is at no
            other message of the chat.
        unanswered: Users with a message that ended without an answer in the last minutes, though their agent had it.
        answered: Users with a message that was answered in the last minutes.
        sockets: Whether each running agent has a socket, of those that should: its user has linked an account, or it
            had one before.
        sessions: Whether the bot has a session, by messenger, of those that need one and have users.
        has_connector: Whether a connector held any socket within the last day.
    """

    unrouted: int = 0
    held: int = 0
    unanswered: int = 0
    answered: int = 0
    messengers: Sequence[MessengerUsers] = ()
    sockets: Mapping[InstanceId, bool] = field(default_factory=dict)
    sessions: Mapping[str, bool] = field(default_factory=dict)
    has_connector: bool = False

    @property
    def without_socket(self) -> Sequence[InstanceId]:
        """Running agents that should have a socket and have none."""
        return sorted(instance_id for instance_id, is_open in self.sockets.items() if not is_open)
