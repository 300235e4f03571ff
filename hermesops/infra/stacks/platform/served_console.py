"""The operators' console of a platform on AWS: its name, who reaches it, and the settings that follow. Pure."""

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, UsageError
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.infra.stacks.platform.users_half import UsersHalf, pages_of

TABLE = "console"
"""Table of settings that the console and the workers read."""

SIGNED_IN = "/console/sign-in/callback"
"""Path to which the issuer sends browsers back; that of ``hermesops.console.operators.gate``."""

PAGES = "/console/"
"""Path of the first page; that of ``hermesops.console.operators.gate``."""

ANYWHERE = "anywhere"
"""Value of ``console.networks`` by which an operator says that every network may reach the console."""

EVERY_NETWORK = "0.0.0.0/0"

MOST_NETWORKS = 12
"""Of a console: each rule of the load balancer takes four beside the name (AWS's guide, "Quotas")."""

_LEAST_PREFIX = 8
"""Bits of a network: a shorter prefix is most of the internet, for which there is a word."""

_NOT_IN_PREFIX = ("amazon", "aws", "cognito")
"""Words that no prefix of a pool's pages may have (Cognito's API reference, "CreateUserPoolDomain")."""

_OF_ISSUER = ("client_id", "keys_url", "authorize_url", "token_url")
_OF_ROLES = ("viewers", "operators", "admins")


@dataclass(frozen=True)
class ServedConsole:
    """Addresses of a served console.

    Attributes:
        host: Name in DNS under which operators' browsers reach the load balancer.
        networks: Networks that may reach it; empty for every one.
        has_issuer: Whether the settings name the issuer of operators' tokens; else it is a pool of the platform's own.
    """

    host: str
    networks: tuple[str, ...]
    has_issuer: bool

    @property
    def origin(self) -> str:
        """Origin of the pages."""
        return f"https://{self.host}"

    @property
    def sign_in_url(self) -> str:
        """URL to which the issuer sends browsers back."""
        return f"{self.origin}{SIGNED_IN}"

    @property
    def links(self) -> dict[str, str]:
        """Address of the first page."""
        return {TABLE: f"{self.origin}{PAGES}"}


def served_console(spec: PlatformSpec, users: UsersHalf | None) -> ServedConsole | None:
    """Read the served console of a platform from its settings; ``None`` without ``console.origin``.

    Args:
        users: The users' half, whose load balancer the console shares.

    Raises:
        UsageError: The load balancer could not have that name, nobody said who may reach it, or the issuer is half
            described.
    """
    table: Mapping[str, Any] = spec.settings.get(TABLE, {})
    origin = str(table.get("origin", ""))
    if not origin:
        return None
    domain = spec.sizes.domain
    if users is None:
        raise UsageError(
            f"console.origin is {origin}, and this platform has no load balancer: it serves no users",
            hint=Hint(("settings", "set", "web.origin", f"https://app.{domain}")),
        )
    host = _host(origin, domain, users)
    if table.get("issuer"):
        _require_whole_issuer(table)
    elif words := [word for word in _NOT_IN_PREFIX if word in spec.place.environment]:
        raise UsageError(
            f"Cognito takes no name with {words[0]} for the pages of this environment's operators",
            hint=Hint(("settings", "set", "console.issuer", "URL"), "names an issuer of your own"),
        )
    return ServedConsole(host, _networks(str(table.get("networks", "")), host), has_issuer=bool(table.get("issuer")))


def console_table(spec: PlatformSpec, console: ServedConsole, issuer: Mapping[str, Any]) -> dict[str, Any]:
    """Table ``console`` of the settings of the console's process and of the workers.

    Args:
        issuer: Settings of the platform's own issuer of operators' tokens, by their names in the table.
    """
    return {**spec.settings[TABLE], **({} if console.has_issuer else issuer)}


def networks_of(text: str) -> tuple[str, ...]:
    """Networks of the setting ``console.networks``; empty for every one.

    Raises:
        UsageError: One is no network, or is most of the internet.
    """
    if text in {"", ANYWHERE}:
        return ()
    return tuple(_network(part) for part in text.split(","))


def _network(text: str) -> str:
    hint = Hint(("settings", "set", "console.networks", "203.0.113.0/24"))
    try:
        network = ipaddress.ip_network(text)
    except ValueError as error:
        raise UsageError(f"console.networks: {error}", hint=hint) from error
    if network.prefixlen < _LEAST_PREFIX:
        why = f"{text} is most of the internet; if every network may reach the console, say {ANYWHERE}"
        raise UsageError(f"console.networks: {why}", hint=hint)
    return str(network)


def _networks(text: str, host: str) -> tuple[str, ...]:
    """The networks that a load balancer lets through."""
    if not text:
        raise UsageError(
            f"missing console.networks: who may reach {host}? Name networks, or say {ANYWHERE}: then the sign-in alone "
            "keeps others out",
            hint=Hint(("settings", "set", "console.networks", "203.0.113.0/24")),
        )
    networks = networks_of(text)
    if len(networks) > MOST_NETWORKS:
        raise UsageError(f"console.networks has {len(networks)} networks, and a load balancer takes {MOST_NETWORKS}")
    if wrong := [network for network in networks if ":" in network]:
        raise UsageError(f"console.networks: {wrong[0]} is of IPv6, by which nobody reaches the load balancer")
    return networks


def _host(origin: str, domain: str, users: UsersHalf) -> str:
    """The host of an origin, where the zone of the domain can have a certificate and a record for it."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    taken = (users.host, pages_of(domain))
    if parts.netloc != host or not host.endswith(f".{domain}") or host in taken:
        raise UsageError(
            f"console.origin is {origin}, and operators of this platform reach a load balancer on port 443 under a "
            f"name below {domain} that is neither {taken[0]} nor {taken[1]}",
            hint=Hint(("settings", "set", "console.origin", f"https://console.{domain}")),
        )
    return host


def _require_whole_issuer(table: Mapping[str, Any]) -> None:
    """Return if an issuer of the operator's own is described as a whole: else nobody could sign in."""
    missing = [name for name in _OF_ISSUER if not table.get(name)]
    missing += [] if any(table.get(name) for name in _OF_ROLES) else ["operators"]
    if missing:
        raise UsageError(
            f"console.issuer is {table['issuer']}, without console.{missing[0]}",
            hint=Hint(
                ("settings", "set", f"console.{missing[0]}", "VALUE"),
                "completes it; without console.issuer the platform makes a pool of operators",
            ),
        )
