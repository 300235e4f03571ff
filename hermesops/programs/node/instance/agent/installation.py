"""The agent installed on this machine: its base configuration, its user, its home, and whether its gateway runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.programs.node.instance.agent import gateway
from hermesops.programs.node.machine import Machine
from hermesops.programs.node.ports import Files
from hermesops.programs.node.system.as_user import AgentHome
from hermesops.programs.node.system.files import Access
from hermesops.wire import strict_json
from hermesops.wire.errors import NotReadyError

BACKUP_USER = "hermes-backup"
"""Whom restic runs as; role ``hermes_node`` makes that user."""


@dataclass(frozen=True)
class Route:
    """A model of the platform's router. ``context_tokens`` spares the agent a question to the internet."""

    name: str
    context_tokens: int


@dataclass(frozen=True)
class Base:
    """The base configuration, ``gateway.json``: the settings of role ``hermes_gateway`` for every instance here.

    Attributes:
        home: Its state folder, HERMES_HOME.
        port: Loopback port of the agent's API.
        routes: Models a user may choose; the first is the default.
        adapters: Manifest names of hermes-agent's messenger adapters, all of them.
        config: Managed configuration before the instance's part is merged in.
        environment: Managed environment before the instance's part.
        user_config: The user's own ``config.yaml``, made once and theirs afterwards.
    """

    unit: str
    user: str
    home: str
    port: int
    routes: tuple[Route, ...]
    adapters: tuple[str, ...]
    config: Mapping[str, Any]
    environment: Mapping[str, str]
    user_config: Mapping[str, Any]


def load_base(files: Files, path: Path) -> Base:
    """Read the base configuration.

    Raises:
        NotReadyError: It is absent or damaged: role ``hermes_gateway`` has not run here.
    """
    data = files.read(path)
    if data is None:
        raise NotReadyError(f"{path} is absent: role hermes_gateway has not been applied to this machine")
    return parse_base(data, path)


def parse_base(data: bytes, path: Path) -> Base:
    """Read the base configuration's text.

    Raises:
        NotReadyError: It is damaged.
    """
    try:
        raw = strict_json.parse(data)
        return Base(
            unit=str(raw["unit"]),
            user=str(raw["user"]),
            home=str(raw["home"]),
            port=int(raw["port"]),
            routes=tuple(Route(str(route["name"]), int(route["context_tokens"])) for route in raw["routes"]),
            adapters=tuple(map(str, raw["adapters"])),
            config=dict(raw["config"]),
            environment={str(name): str(value) for name, value in raw["environment"].items()},
            user_config=dict(raw["user_config"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError) as error:
        raise NotReadyError(f"{path} is damaged ({type(error).__name__}): apply role hermes_gateway again") from error


@dataclass(frozen=True)
class Agent:
    """The agent, with its base configuration and the home that its state is in."""

    base: Base
    home: AgentHome


def agent_of(machine: Machine) -> Agent:
    """The agent of a machine.

    Raises:
        NotReadyError: The roles have not been applied.
    """
    base = load_base(machine.files, machine.layout.base)
    return Agent(base, AgentHome(machine.layout.home(base.home), account(machine, base.user), machine.layout.program))


def account(machine: Machine, user: str) -> Access:
    """The access of a private file of a user.

    Raises:
        NotReadyError: There is no such user.
    """
    access = machine.system.account(user)
    if access is None:
        role = "hermes_node" if user == BACKUP_USER else "hermes_base"
        raise NotReadyError(f"no user {user}: role {role} has not been applied to this machine")
    return access


def is_running(machine: Machine, agent: Agent) -> bool:
    """Whether the gateway runs, is starting or stopping."""
    return gateway.observe(machine.system, agent.base.unit).is_running
