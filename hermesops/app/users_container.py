"""The parts of processes that the internet reaches: none has the registry's key, a machine's token or the vendor's key.

The users' API needs two keys: the ring that seals what users say, and the secret that proves Stripe's events; it
reaches agents through the relay. The process of connections needs that ring, for sessions, and the key of the project
at Composio; it reaches no agent.
"""

from functools import cached_property

from hermesops.app import parts
from hermesops.base.narration import Warn, warn
from hermesops.settings.environment import Environment
from hermesops.settings.sections import MessengerSettings
from hermesops.users.messaging.inbound.links import ADDRESSES


class RowsContainer:
    """The parts that both kinds of processes need. Each is made when it is first asked for.

    Args:
        warn: Takes warnings, for the log.
    """

    def __init__(self, env: Environment, warn: Warn = warn) -> None:
        self.env = env
        self.warn = warn

    registry_place = cached_property(parts.registry.registry_place)
    secrets = cached_property(parts.access.secrets)
    user_rows = cached_property(parts.chat.user_rows)
    messages = cached_property(parts.chat.messages)
    accounts = cached_property(parts.chat.accounts)

    @property
    def messenger_settings(self) -> MessengerSettings:
        """The bots, as the settings have them."""
        return self.env.settings.messengers

    web_sessions = cached_property(parts.chat.web_sessions)
    require_tables = parts.chat.require_tables
    message_bell = parts.messaging.message_bell


class UsersContainer(RowsContainer):
    """The parts of the users' API outside the local world."""

    chat_rows = cached_property(parts.chat.chat_rows)
    relay_client = cached_property(parts.chat.relay_client)
    make_chat = parts.chat.chat
    calling_rows = cached_property(parts.chat.calling_rows)
    make_callers = parts.chat.callers
    make_agent_jobs = parts.chat.agent_jobs
    user_requests = cached_property(parts.users.user_requests)
    user_plans = cached_property(parts.users.user_plans)
    make_copied_settings = parts.users.copied_settings
    api_figures = cached_property(parts.users.api_figures)
    metered_sums = cached_property(parts.users.metered_sums)
    stripe_door = parts.users.stripe_door
    messenger_accounts = cached_property(parts.messaging.messenger_accounts)
    incoming_messages = cached_property(parts.messaging.incoming_messages)
    link_addresses = ADDRESSES
    messenger_links = parts.messaging.messenger_links
    telegram_door = parts.messaging.telegram_door
    slack_door = parts.messaging.slack_door
    whatsapp_door = parts.messaging.whatsapp_door
    discord_door = parts.messaging.discord_door


class ConnectorContainer(RowsContainer):
    """The parts of the connector: it holds the bots' tokens, and reaches agents through their sockets and the relay."""

    relay_client = cached_property(parts.chat.relay_client)
    messenger_accounts = cached_property(parts.messaging.messenger_accounts)
    incoming_messages = cached_property(parts.messaging.incoming_messages)
    outgoing_messages = cached_property(parts.messaging.outgoing_messages)
    agent_files = cached_property(parts.messaging.agent_files)


class ConnectionsContainer(RowsContainer):
    """The parts of the process of connections outside the local world."""

    connection_project = parts.connections.project_of_key
    make_connections = parts.connections.connections
    make_agent_calls = parts.connections.agent_calls
