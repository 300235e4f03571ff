"""The agent of this machine: its base configuration, its user, its home, and whether its gateway runs."""

from dataclasses import dataclass

from hermesops.node.errors import NotReadyError
from hermesops.node.instance.agent import base_config as base_configuration
from hermesops.node.instance.agent import gateway
from hermesops.node.instance.agent.base_config import Base
from hermesops.node.machine import Machine
from hermesops.node.system.as_user import AgentHome
from hermesops.node.system.files import Access

BACKUP_USER = "hermes-backup"
"""Whom restic runs as; role ``hermes_node`` makes that user."""


@dataclass(frozen=True)
class Agent:
    """The agent, whoever's it is.

    Attributes:
        home: Where its state is.
    """

    base: Base
    home: AgentHome


def agent_of(machine: Machine) -> Agent:
    """The agent of a machine.

    Raises:
        NotReadyError: The roles have not been applied.
    """
    base = base_configuration.load(machine.files, machine.layout.base)
    return Agent(base, AgentHome(machine.layout.home(base.home), account(machine, base.user), machine.layout.program))


def account(machine: Machine, user: str) -> Access:
    """What a private file of a user's looks like.

    Raises:
        NotReadyError: There is no such user.
    """
    access = machine.system.account(user)
    if access is None:
        role = "hermes_node" if user == BACKUP_USER else "hermes_base"
        raise NotReadyError(f"no user {user}: role {role} has not been applied to this machine")
    return access


def is_running(machine: Machine, agent: Agent) -> bool:
    """Whether the gateway runs, or is about to."""
    return gateway.look(machine.system, agent.base.unit).is_running
