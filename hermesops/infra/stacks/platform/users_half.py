"""The users' half of a platform on AWS: the name under which users reach it, and the settings that follow. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from hermesops.errors import Hint, UsageError
from hermesops.infra.stacks.platform.spec import PlatformSpec
from hermesops.settings.sections import BOT_SETTINGS

SIGNED_IN = "/hermes-max/sign-in/callback"
"""Path to which the issuer sends browsers back; that of ``hermesops.api.routes.sign_in``."""

TABLES = ("billing", "connections", "messengers", "web")
"""Tables of settings that the processes of users read."""

_PAGES = "auth"
"""First label of the name of Cognito's pages, which is in the same zone."""

_ISSUER = ("issuer", "issuer_kind", "client_id", "keys_url", "authorize_url", "token_url")


@dataclass(frozen=True)
class UsersHalf:
    """Addresses of a users' half.

    Attributes:
        host: Name in DNS under which browsers and agents reach the load balancer.
        agents_url: URL of agents' calls to services; empty where no service is offered.
        sockets_url: URL of the connector, to which agents open sockets; empty where there is no bot.
        has_issuer: Whether the settings name the issuer of users' tokens; else it is the platform's Cognito.
    """

    host: str
    agents_url: str
    sockets_url: str
    has_issuer: bool

    @property
    def origin(self) -> str:
        """Origin of the pages and of the API."""
        return f"https://{self.host}"

    @property
    def sign_in_url(self) -> str:
        """URL to which the issuer sends browsers back."""
        return f"{self.origin}{SIGNED_IN}"

    @property
    def links(self) -> dict[str, str]:
        """Addresses for users and agents, by what is there."""
        links = {"chat_page": f"{self.origin}/hermes-max/chat", "api": f"{self.origin}/api/hermes"}
        links |= {"agents": self.agents_url} if self.agents_url else {}
        return links | ({"sockets": f"{self.sockets_url}/relay"} if self.sockets_url else {})


def pages_of(domain: str) -> str:
    """Name of Cognito's pages of sign-in."""
    return f"{_PAGES}.{domain}"


def users_half(spec: PlatformSpec) -> UsersHalf | None:
    """Read the users' half of a platform from its settings; ``None`` without ``web.origin``: it serves no users.

    Raises:
        UsageError: The load balancer could not have that name, or agents would call another one.
    """
    web, connections, messengers = (_table(spec, name) for name in ("web", "connections", "messengers"))
    origin = str(web.get("origin", ""))
    if not origin:
        return None
    host = _host(origin, spec.sizes.domain)
    agents_url = ""
    if connections.get("services"):
        agents_url = str(connections.get("agents_url") or f"https://{host}/mcp")
        _require_same("connections.agents_url", agents_url, f"https://{host}/mcp")
    sockets_url = ""
    if any(messengers.get(name) for name in BOT_SETTINGS.values()):
        sockets_url = str(messengers.get("agents_url") or f"https://{host}")
        _require_same("messengers.agents_url", sockets_url, f"https://{host}")
    return UsersHalf(host, agents_url, sockets_url, has_issuer=bool(web.get("issuer")))


def tables_of(spec: PlatformSpec, users: UsersHalf, issuer: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Tables of settings of the processes of users: those of the environment, and what follows from the addresses.

    Args:
        issuer: Settings of the platform's own issuer, by their names in table ``web``.
    """
    tables = {name: dict(table) for name in TABLES if (table := _table(spec, name))}
    own = {} if users.has_issuer else {name: issuer[name] for name in _ISSUER}
    tables["web"] = {**tables["web"], **own}
    if users.agents_url:
        tables["connections"] = {**tables["connections"], "agents_url": users.agents_url}
    if users.sockets_url:
        tables["messengers"] = {**tables["messengers"], "agents_url": users.sockets_url}
    return tables


def _table(spec: PlatformSpec, name: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = spec.settings.get(name, {})
    return table


def _host(origin: str, domain: str) -> str:
    """The host of an origin, where the zone of the domain can have a certificate and a record for it."""
    parts = urlsplit(origin)
    host = parts.hostname or ""
    is_below = host.endswith(f".{domain}") and host != pages_of(domain)
    if parts.netloc != host or not is_below:
        raise UsageError(
            f"web.origin is {origin}, and users of this platform reach a load balancer on port 443 under a name "
            f"below {domain} that is not {pages_of(domain)}",
            hint=Hint(("settings", "set", "web.origin", f"https://app.{domain}")),
        )
    return host


def _require_same(setting: str, url: str, own: str) -> None:
    host = urlsplit(own).netloc
    if urlsplit(url).netloc != host:
        raise UsageError(
            f"{setting} is {url}, and the load balancer has a certificate for {host} alone",
            hint=Hint(("settings", "set", setting, own)),
        )
