"""The base configuration: what the role that installed the gateway says about every instance on such a machine."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermesops.node.errors import NotReadyError
from hermesops.node.ports import Files
from hermesops.node.untrusted import strict_json


@dataclass(frozen=True)
class Route:
    """A model of the platform's router. ``context_tokens`` spares the agent a question to the internet."""

    name: str
    context_tokens: int


@dataclass(frozen=True)
class Base:
    """Content of ``gateway.json``.

    Attributes:
        unit: systemd unit of the gateway.
        user: System user it runs as.
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


def load(files: Files, path: Path) -> Base:
    """Read the base configuration.

    Raises:
        NotReadyError: It is absent or damaged: role ``hermes_gateway`` has not run here.
    """
    data = files.read(path)
    if data is None:
        raise NotReadyError(f"{path} is absent: role hermes_gateway has not been applied to this machine")
    return parse(data, path)


def parse(data: bytes, path: Path) -> Base:
    """Read its text.

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
