"""The users' half: rows, chat with agents, jobs of agents, and sessions of pages."""

import os
import secrets
from datetime import timedelta
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from hermesops.access.secrets.keyring.key_ring import KeyRing
    from hermesops.agents.relay.client import RelayClient
    from hermesops.app.container import Container
    from hermesops.app.users_container import RowsContainer, UsersContainer
    from hermesops.model.ids import UserId
    from hermesops.store.registry.database import Database
    from hermesops.store.user_rows.accounts import UserAccounts
    from hermesops.store.user_rows.sessions import WebSessions
    from hermesops.users.agent_jobs.service import AgentJobs
    from hermesops.users.callers.service import Callers, CallingRows
    from hermesops.users.chat.carrier import ChatRows
    from hermesops.users.chat.events import EventLog
    from hermesops.users.chat.service import Chat

_APPROVAL = timedelta(seconds=55)
"""For how long an agent waits for an approval: ``approvals.timeout`` of hermes-agent 0.19.0 is 60 s, less the way."""


def user_rows(container: "Container | RowsContainer") -> "Database":
    """The database of the users' half."""
    return container.registry_place.user_rows()


def messages(container: "Container | RowsContainer") -> "KeyRing":
    """The key ring that seals what users say."""
    return container.registry_place.messages()


def accounts(container: "Container | RowsContainer") -> "UserAccounts":
    """Users' agents, as the users' API sees them."""
    from hermesops.store.user_rows.accounts import UserAccounts

    return UserAccounts(container.user_rows)


def web_sessions(container: "Container | RowsContainer") -> "WebSessions":
    """Sessions of browsers on the chat page, in the rows of users."""
    from hermesops.store.user_rows.sessions import WebSessions

    return WebSessions(container.user_rows, container.messages)


def chat_rows(container: "Container | UsersContainer") -> "ChatRows":
    """Rows that the chat works on."""
    from hermesops.store.user_rows.approvals import TurnApprovals
    from hermesops.store.user_rows.files import ChatFiles
    from hermesops.store.user_rows.turns import Turns
    from hermesops.users.chat.carrier import ChatRows

    database, ring = container.user_rows, container.messages
    return ChatRows(Turns(database, ring), TurnApprovals(database, ring, _APPROVAL), ChatFiles(database, ring))


def chat(container: "Container | UsersContainer", relay: "RelayClient") -> "Chat":
    """Users' chat with their agents, which this process carries.

    Args:
        relay: By which agents are reached.
    """
    from hermesops.users.chat.agent_runs import AgentRuns
    from hermesops.users.chat.carrier import TurnCarrier
    from hermesops.users.chat.service import Chat

    rows, runs, events = container.chat_rows, AgentRuns(relay), _events(container)
    name = f"{os.getpid()}-{secrets.token_hex(6)}"
    carrier = TurnCarrier(rows, runs, events, name, container.accounts.now)
    return Chat(container.accounts, rows, runs, events, carrier)


def calling_rows(container: "Container | UsersContainer") -> "CallingRows":
    """Rows of agents that call users' agents."""
    from hermesops.store.calling_rows.callers import AgentCallers
    from hermesops.store.calling_rows.pushes import TaskPushes
    from hermesops.store.calling_rows.tasks import CalledTasks
    from hermesops.users.callers.service import CallingRows

    database, ring = container.user_rows, container.messages
    return CallingRows(AgentCallers(database, ring), CalledTasks(database), TaskPushes(database, ring))


def callers(container: "Container | UsersContainer", is_denied: "Callable[[UserId], bool]") -> "Callers":
    """Keys of agents that call users' agents.

    Args:
        is_denied: Whether a user may not use the platform.
    """
    from hermesops.users.callers.service import Callers

    return Callers(container.accounts, container.calling_rows.callers, is_denied)


def _events(container: "Container | UsersContainer") -> "EventLog":
    """Events of turns: shared with other processes where there is a Redis."""
    from hermesops.users.chat.events import EventLog

    web = container.env.settings.web
    if not web.redis_url:
        return EventLog()
    from hermesops.users.chat.redis_client import redis_client
    from hermesops.users.chat.shared_events import SharedEventLog

    return SharedEventLog(redis_client(web), container.messages)


def require_tables(container: "RowsContainer") -> None:
    """Check that the tables are those of this code.

    Raises:
        RefusedError: They are older or newer.
        UnavailableError: The database does not answer.
    """
    from hermesops.store.registry.schema import schema_version

    schema_version.require(container.user_rows)


def relay_client(container: "UsersContainer") -> "RelayClient":
    """The relay that the settings name, and the certificate by which this process calls it.

    Raises:
        UsageError: A setting is missing.
        RefusedError: The certificate is missing or damaged, or others may read it.
    """
    from hermesops.agents.relay.stored_credential import relay_of

    return relay_of(container.env.settings.relay)


def agent_jobs(container: "Container | UsersContainer", relay: "RelayClient") -> "AgentJobs":
    """Jobs that users give their agents to do at times; ``relay`` as of ``chat``."""
    from hermesops.users.agent_jobs.service import AgentJobs

    return AgentJobs(container.accounts, relay)
