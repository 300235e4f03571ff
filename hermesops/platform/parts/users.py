"""The users' half on a platform's host: the API, the processes of connections and messengers, the door, and keys."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from urllib.parse import urlsplit

from hermesops.access.pki.callers import Callers
from hermesops.access.secrets.endpoint import Endpoint
from hermesops.agents.relay.admission import CallerAdmission
from hermesops.agents.relay.routes import API, CONNECTOR
from hermesops.base.narration import Reporter
from hermesops.errors import UnavailableError
from hermesops.infra.stacks.platform.served_console import networks_of
from hermesops.localcloud.vendors.issuer import CLIENT
from hermesops.localcloud.vendors.users_door import UsersDoor, write_door
from hermesops.model.connections.service import BY_SLUG
from hermesops.platform.host import CertificatePairs, HostAddress, Part, PlainPart
from hermesops.platform.parts.console import console_part, console_settings
from hermesops.platform.parts.control import host_users_settings
from hermesops.platform.parts.user_credentials import PROCESSES
from hermesops.settings.environment import Environment
from hermesops.settings.sections import MessengerSettings
from hermesops.vendor.channel import Channel

ROLES = frozenset(
    {
        "hermes_platform_api",
        "hermes_platform_connections",
        "hermes_platform_connector",
        "hermes_platform_console",
        "hermes_platform_edge",
    }
)

UNITS = tuple(
    f"hermesops-{process}.{kind}"
    for process in (*(f"api-{number}" for number in PROCESSES), "connections", "connector", "console")
    for kind in ("socket", "service")
)
"""Units of these roles, each socket before its service: a service whose socket still listens would be started again."""

_UNITS_ARE = (
    f"for unit in {' '.join(UNITS)}; do "
    "[ ! -e /etc/systemd/system/$unit ] || systemctl {action} --quiet --now $unit || exit 1; done"
)
_WATCHED = " ".join(
    f"/etc/hermes-platform/scraped-{name}.json" for name in ("api", "connections", "connector", "console")
)
_WATCHED_ARE = f"for file in {_WATCHED}; do [ ! -e $file{{now}} ] || mv $file{{now}} $file{{then}} || exit 1; done"
"""What Prometheus asks: processes that are stopped on purpose are no fault."""

USERS_DOWN = f"{_WATCHED_ARE.format(now='', then='.off')}; {_UNITS_ARE.replace('{action}', 'disable')}"
"""Command by which a host serves no users until roles are applied again, or ``USERS_UP`` is run; any host passes."""

USERS_UP = f"{_UNITS_ARE.replace('{action}', 'enable')}; {_WATCHED_ARE.format(now='.off', then='')}"

_API_HOME, _CONNECTIONS_HOME, _CONNECTOR_HOME = (
    f"/var/lib/hermesops-{name}" for name in ("api", "connections", "connector")
)
_SHOWN_S = 10.0
_LOOPBACK = frozenset({"127.0.0.1", "localhost"})


@dataclass(frozen=True)
class RelayCredentials:
    """Certificates of one caller's processes for the relay.

    A process renews its certificate itself; here it gets another one where it has none that counts.

    Args:
        name: Of the caller.
        title: Of the caller, for people.
        callers: Admits it to the relay.
        authorities: That certificates may be signed by, PEM.
        report: Takes the narration.
    """

    name: str
    title: str
    callers: Callable[[], Callers]
    authorities: Callable[[], str]
    report: Reporter

    async def fresh(self, process: str, files: Sequence[str], channel: Channel) -> str:
        """A new certificate, with its key; empty where the process has one that counts in one of these files.

        While the registry, which may be on this host, does not answer, the process keeps what it has.
        """
        texts = [await _certificates_in(channel, file) for file in files]
        try:
            admission = CallerAdmission(self.name, self.callers, self.authorities)
            return await admission.credential(texts, why=f"{self.title} of the platform's host")
        except UnavailableError as error:
            self.report(f"{process} gets no new certificate for the relay: {error.message}")
            return ""


@dataclass(frozen=True)
class ApiPart:
    """Role ``hermes_platform_api``: two processes of the users' API, each a caller of the relay.

    Args:
        settings: As settings.toml has them.
        keys: Texts of ``messages_key``, ``billing_secret``, ``telegram_secret``, ``slack_secret``, ``whatsapp_secret``
            and ``whatsapp_key``; an empty one keeps that of the host.
        callers: Admits the processes to the relay.
        authorities: That certificates may be signed by, PEM.
        report: Takes the narration.
        loopback_ports: TCP ports of the host's loopback that the processes may reach, as of a local world's issuer.
    """

    environment: str
    settings: Mapping[str, object]
    keys: Callable[[], Mapping[str, str]] = field(repr=False)
    callers: Callable[[], Callers]
    authorities: Callable[[], str]
    report: Reporter
    loopback_ports: Sequence[int] = ()
    role: str = "hermes_platform_api"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role; admits a process without a good certificate to the relay."""
        del at
        certificate, key = await pairs.client("hermesops-api", f"{_API_HOME}/registry-client.crt")
        return {
            "environment": self.environment,
            "settings": self.settings,
            "certificate": certificate,
            "key": key,
            **await asyncio.to_thread(self.keys),
            "relay_credentials": [await self._credential(number, pairs.channel) for number in PROCESSES],
            "redis": True,
            "loopback_ports": list(self.loopback_ports),
        }

    async def _credential(self, number: int, channel: Channel) -> str:
        files = (f"{_API_HOME}/relay-{number}.pem", f"{_API_HOME}/renewed-{number}/relay.pem")
        credentials = RelayCredentials(API, "the users' API", self.callers, self.authorities, self.report)
        return await credentials.fresh(f"process {number} of the users' API", files, channel)


@dataclass(frozen=True)
class ConnectionsPart:
    """Role ``hermes_platform_connections``: the process that has the key of the project at Composio.

    Args:
        settings: As settings.toml has them.
        project_key: Of the project at Composio.
        loopback_ports: As of ``ApiPart``.
    """

    environment: str
    settings: Mapping[str, object]
    project_key: str = field(repr=False)
    loopback_ports: Sequence[int] = ()
    role: str = "hermes_platform_connections"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role; adds a certificate for the database unless the host's is good."""
        del at
        name = "hermesops-connections"
        certificate, key = await pairs.client(name, f"{_CONNECTIONS_HOME}/registry-client.crt")
        return {
            "environment": self.environment,
            "settings": self.settings,
            "certificate": certificate,
            "key": key,
            "project_key": self.project_key,
            "loopback_ports": list(self.loopback_ports),
        }


@dataclass(frozen=True)
class ConnectorPart:
    """Role ``hermes_platform_connector``: the process that has the bots' tokens, to which agents open their sockets.

    Args:
        settings: As settings.toml has them.
        keys: Texts of ``sockets_key`` and of the token of each bot, as ``telegram_token``; an empty one keeps that of
            the host.
        credentials: Of the caller ``connector``.
        loopback_ports: As of ``ApiPart``.
    """

    environment: str
    settings: Mapping[str, object]
    keys: Callable[[], Mapping[str, str]] = field(repr=False)
    credentials: RelayCredentials
    loopback_ports: Sequence[int] = ()
    role: str = "hermes_platform_connector"

    async def variables(self, at: HostAddress, pairs: CertificatePairs) -> Mapping[str, object]:
        """Variables of the role; adds certificates for the database and the relay unless the host's are good."""
        del at
        certificate, key = await pairs.client("hermesops-connector", f"{_CONNECTOR_HOME}/registry-client.crt")
        files = (f"{_CONNECTOR_HOME}/relay.pem", f"{_CONNECTOR_HOME}/renewed/relay.pem")
        return {
            "environment": self.environment,
            "settings": self.settings,
            "certificate": certificate,
            "key": key,
            **await asyncio.to_thread(self.keys),
            "relay_credential": await self.credentials.fresh("the connector", files, pairs.channel),
            "redis": True,
            "loopback_ports": list(self.loopback_ports),
        }


async def _certificates_in(channel: Channel, file: str) -> str:
    """The certificates of a file, without the key before them; empty where there is no such file."""
    shown = await channel.run(f"sed -n '/-BEGIN CERTIFICATE-/,$p' {file}", timeout_s=_SHOWN_S)
    return shown.text.strip() if shown.exit_code == 0 else ""


_OF_ALL = {"requests_per_second": 200, "burst": 1000, "connections": 1000, "sockets": 1000}
"""Limits of one address at the door of a local world's platform, where all browsers and agents have the same."""


@dataclass(frozen=True)
class UsersHalf:
    """The users' half of a local world's platform: its roles, settings and addresses.

    Args:
        edge: ``HOST:PORT`` at which browsers and machines reach the door.
        project_key: Of the project at Composio, or of the world's stand-in; empty for none.
        keys: As of ``ApiPart``.
        connector_keys: As of ``ConnectorPart``.
        world_port: TCP port of the world's API on the host's loopback, where its issuer and Composio are, too.
        is_served: Whether the host's registry is the environment's: before, no role of these is applied.
        messengers: The bots, of the operator's settings or of the world's stand-ins.
    """

    env: Environment
    endpoint: Endpoint
    messengers: MessengerSettings
    edge: str
    project_key: str = field(repr=False)
    keys: Callable[[], Mapping[str, str]] = field(repr=False)
    callers: Callable[[], Callers]
    authorities: Callable[[], str]
    report: Reporter
    world_port: int
    is_served: bool
    connector_keys: Callable[[], Mapping[str, str]] = field(default=dict, repr=False)

    @property
    def has_connector(self) -> bool:
        """Whether there is a bot, and so a connector to which agents open their sockets."""
        return bool(self.messengers.bots)

    @property
    def settings(self) -> dict[str, object]:
        """Settings by name: the operator's own address and issuer win, else they are the world's."""
        web, connections = self.env.settings.web, self.env.settings.connections
        settings: dict[str, object] = {"web.origin": web.origin or f"https://{self.edge}"}
        if not web.issuer and (url := self.endpoint.issuer_url):
            settings |= {"web.issuer": url, "web.issuer_kind": "cognito", "web.client_id": CLIENT}
            settings |= {f"web.{name}_url": f"{url}/{name}" for name in ("keys", "authorize", "token")}
        if self.project_key:
            settings["connections.agents_url"] = connections.agents_url or f"https://{self.edge}/mcp"
        if self.project_key and self.project_key == self.endpoint.composio_key:
            settings["connections.base_url"] = self.endpoint.composio_url
            offered = ",".join(f"{slug}=ac_{slug}" for slug in BY_SLUG)
            settings["connections.services"] = connections.services or offered
        return settings | self._billing | self._messengers | console_settings(self.env, self.endpoint.issuer_url)

    @property
    def _messengers(self) -> dict[str, object]:
        """The world's bots, unless the operator has some, and the connector's address; nothing without a bot."""
        own = self.env.settings.messengers
        if not self.has_connector:
            return {}
        world = {} if own.bots else self.endpoint.messengers
        bots = {f"messengers.{name}": value for name, value in world.items()}
        return {**bots, "messengers.agents_url": own.agents_url or f"https://{self.edge}"}

    @property
    def _billing(self) -> dict[str, object]:
        """The world's Stripe with its prices and meters; nothing where there is none, or the operator's own."""
        endpoint, own = self.endpoint, self.env.settings.billing
        if not endpoint.stripe_url or own.base_url:
            return {}
        prices = own.prices or endpoint.stripe_prices
        meters = own.meters or endpoint.stripe_meters
        return {
            "billing.base_url": endpoint.stripe_url,
            "billing.prices": {price: plan.value for price, plan in sorted(prices.items())},
            "billing.meters": {meter.value: name for meter, name in sorted(meters.items())},
            "billing.metered_since": own.metered_since or date.min.isoformat(),
            "billing.metered_prices": sorted(own.metered_prices or endpoint.stripe_metered_prices),
        }

    @property
    def parts(self) -> list[Part]:
        """The roles, in their order; none while no users are served."""
        if not self.is_served:
            return []
        environment, settings = self.env.name, host_users_settings(self.env, self.settings)
        of_world = (self.world_port,)
        api = ApiPart(environment, settings, self.keys, self.callers, self.authorities, self.report, of_world)
        connections = ConnectionsPart(environment, settings, self.project_key, of_world)
        behind: list[Part] = [connections] if self.project_key else []
        if self.has_connector:
            behind.append(self._connector(settings))
        console = console_part(self.env, self.endpoint.issuer_url, self.world_port)
        behind += [console] if console else []
        host = urlsplit(self.env.settings.console.origin).hostname or ""
        networks = list(networks_of(self.env.settings.console.networks)) if host else []
        has = {
            "has_connections": bool(self.project_key),
            "has_connector": self.has_connector,
            "console_host": host,
            "console_networks": networks,
        }
        return [api, *behind, PlainPart("hermes_platform_edge", {**has, **_OF_ALL})]

    def _connector(self, settings: Mapping[str, object]) -> ConnectorPart:
        """The connector; a messenger's stand-in on the host's loopback may be reached, too."""
        credentials = RelayCredentials(CONNECTOR, "the connector", self.callers, self.authorities, self.report)
        messengers = self.messengers
        own = (messengers.telegram_url, messengers.slack_url, messengers.whatsapp_url, messengers.discord_url)
        urls = map(urlsplit, own)
        ports = {url.port for url in urls if url.hostname in _LOOPBACK and url.port} - {self.world_port}
        reached = (self.world_port, *sorted(ports))
        return ConnectorPart(self.env.name, settings, self.connector_keys, credentials, reached)

    @property
    def links(self) -> dict[str, str]:
        """Addresses for users and agents, by what is there; none while no users are served."""
        if not self.is_served:
            return {}
        settings = self.settings
        links = {
            "chat_page": f"{settings['web.origin']}/hermes-max/chat",
            "api": f"{settings['web.origin']}/api/hermes",
        }
        if self.project_key:
            links["agents"] = str(settings["connections.agents_url"])
        if self.has_connector:
            links["sockets"] = f"{settings['messengers.agents_url']}/relay"
        if self.env.settings.console.origin:
            links["console"] = f"{self.env.settings.console.origin}/console/"
        return links

    def open_door(self, file: Path, door: str, api: str) -> None:
        """Have the world's stand-ins of vendors send their reports to the door, as an operator enters it at vendors.

        Args:
            file: Of the world, which names the door.
            door: URL at which this computer reaches it.
            api: URL of the API, whose name the door answers to.
        """
        write_door(file, UsersDoor(door, urlsplit(api).netloc, self.authorities()))
