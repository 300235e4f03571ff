"""The operators' console on a host of a local world's platform: its role and settings."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hermesops.localcloud.vendors.issuer import CONSOLE_CLIENT
from hermesops.platform.host import CertificatePairs, HostAddress
from hermesops.platform.parts.control import host_console_settings
from hermesops.settings.environment import Environment

PROCESS = "hermesops-console"
"""Name of the process in its certificate, and of its user."""

_HOME = f"/var/lib/{PROCESS}"

OF_WORLD = {"viewers": "viewers", "operators": "operators", "admins": "admins"}
"""Groups of the world's issuer by the setting of the role that they give."""


@dataclass(frozen=True)
class ConsolePart:
    """Role ``hermes_platform_console``: the console for several operators.

    Args:
        settings: As settings.toml has them.
        loopback_ports: TCP ports of the host's loopback that the process may reach, as of a local world's issuer.
    """

    environment: str
    settings: Mapping[str, object]
    loopback_ports: Sequence[int] = ()
    role: str = "hermes_platform_console"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role; adds a certificate for database and monitoring unless the host's is good."""
        del at
        certificate, key = await pairs.client(PROCESS, f"{_HOME}/registry-client.crt")
        return {
            "environment": self.environment,
            "settings": self.settings,
            "certificate": certificate,
            "key": key,
            "loopback_ports": list(self.loopback_ports),
        }


def console_part(env: Environment, issuer_url: str, world_port: int) -> ConsolePart | None:
    """The console of an environment; ``None`` where the setting ``console.origin`` is empty.

    Args:
        issuer_url: Of the world's issuer; empty for none.
        world_port: TCP port of the world's API on the host's loopback, where its issuer is.
    """
    if not env.settings.console.origin:
        return None
    settings = host_console_settings(env, console_settings(env, issuer_url))
    return ConsolePart(env.name, settings, (world_port,))


def console_settings(env: Environment, issuer_url: str) -> dict[str, object]:
    """Settings by name that the world adds: its own issuer, unless the operator has one."""
    if not env.settings.console.origin or env.settings.console.issuer or not issuer_url:
        return {}
    return {
        "console.issuer": issuer_url,
        "console.client_id": CONSOLE_CLIENT,
        **{f"console.{name}_url": f"{issuer_url}/{name}" for name in ("keys", "authorize", "token")},
        **{f"console.{name}": group for name, group in OF_WORLD.items()},
    }
