"""The users' half of a platform's host: when its processes get another certificate, and which settings they have."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from hermesops.access.pki.authority import Authority, fresh_key
from hermesops.access.pki.callers import Callers
from hermesops.access.secrets.endpoint import Endpoint
from hermesops.agents.relay.credential import CallerPem
from hermesops.agents.relay.routes import API, CONNECTOR
from hermesops.errors import UnavailableError, UsageError
from hermesops.localcloud.vendors.users_door import UsersDoor, door_in
from hermesops.model.billing.metering import Meter
from hermesops.model.ids import MachineId
from hermesops.model.plan import Plan
from hermesops.platform.host import CertificatePairs, HostAddress, PlainPart
from hermesops.platform.parts.connector_keys import connector_keys
from hermesops.platform.parts.control import host_users_settings
from hermesops.platform.parts.users import ApiPart, ConnectorPart, RelayCredentials, UsersHalf
from hermesops.settings.environment import Environment
from hermesops.settings.sections import BillingSettings, MessengerSettings
from hermesops.store.registry import Registry
from hermesops.vendor.channel import Completed
from tests.support.fakes.credentials import authority_in
from tests.support.fakes.parts import part
from tests.support.real.stores.registries import TurnedClock, registry_at

if TYPE_CHECKING:
    from hermesops.access.secrets.store import Secrets

AT = HostAddress("hermes-local-platform", MachineId("m-1"), "10.213.0.1")
EDGE = "10.213.0.1:18091"
LIFE = timedelta(days=7)
HOME = "/var/lib/hermesops-api"


@dataclass
class Host:
    """A host with files, and the registry that admits its processes.

    Attributes:
        told: Narration.
    """

    registry: Registry
    authority: Authority
    clock: TurnedClock
    files: dict[str, str] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)

    @property
    def callers(self) -> Callers:
        return Callers(self.registry, lambda: self.authority, environment="local", life=LIFE)

    async def run(self, command: str, **_: object) -> Completed:
        text = self.files.get(command.rpartition(" ")[2])
        if text is not None and command.startswith("sed"):
            text = text[text.index("-----BEGIN CERTIFICATE") :]
        return Completed(1 if text is None else 0, (text or "").encode(), b"")

    async def given(self) -> list[str]:
        """Certificates for the relay that the next run gives the host; it writes them."""
        pairs = CertificatePairs(part(run=self.run), self.authority, "local")
        texts = await self.part.variables(AT, pairs)
        credentials: Any = texts["relay_credentials"]
        self.files |= {f"{HOME}/relay-{number}.pem": text for number, text in enumerate(credentials, 1) if text}
        return [CallerPem.parse(text, "given").certificate if text else "" for text in credentials]

    @property
    def part(self) -> ApiPart:
        return ApiPart("local", {}, dict, lambda: self.callers, self.authorities, self.told.append, (7001,))

    def authorities(self) -> str:
        return "".join(self.registry.certificates.list_authorities())

    @property
    def admitted(self) -> int:
        return len(self.registry.relay_callers.list())


@pytest.fixture
def host(tmp_path: Path, clock: TurnedClock) -> Host:
    clock.timestamp = datetime.now(UTC)
    registry = registry_at(f"sqlite:///{tmp_path}/r.db", clock=clock)
    authority = Authority.load(fresh_key(), registry, environment="local", source="test")
    return Host(registry, authority, clock)


async def test_each_process_gets_a_certificate_once(host: Host) -> None:
    first = await host.given()
    assert all(first)
    assert first[0] != first[1]
    assert await host.given() == ["", ""]
    assert host.admitted == 2


async def test_a_certificate_that_was_revoked_is_replaced(host: Host) -> None:
    await host.given()
    host.registry.relay_callers.revoke(API, why="test")
    assert all(await host.given())
    assert await host.given() == ["", ""]


async def test_one_that_the_process_renewed_counts_in_the_place_of_the_given_one(host: Host) -> None:
    await host.given()
    host.clock.timestamp += LIFE * 0.6
    renewed = Host(host.registry, host.authority, host.clock)
    await renewed.given()
    host.files[f"{HOME}/renewed-1/relay.pem"] = renewed.files[f"{HOME}/relay-1.pem"]
    host.clock.timestamp += LIFE * 0.6
    first, second = await host.given()
    assert (first, bool(second)) == ("", True), "only the other process's has ended"


@pytest.mark.parametrize("text", ["", "x", "-----BEGIN CERTIFICATE-----\nx\n-----END CERTIFICATE-----\n"])
async def test_a_damaged_file_is_replaced(host: Host, text: str) -> None:
    await host.given()
    host.files[f"{HOME}/relay-2.pem"] = f"-----BEGIN CERTIFICATE-----{text}"
    first, second = await host.given()
    assert (first, bool(second)) == ("", True)


async def test_another_authority_to_trust_is_another_certificate(host: Host, tmp_path: Path) -> None:
    await host.given()
    host.registry.certificates.trust_authority(authority_in(tmp_path, environment="next").certificate)
    assert all(await host.given())
    assert await host.given() == ["", ""]


async def test_while_the_registry_is_away_a_host_keeps_what_it_has(host: Host) -> None:
    async def variables() -> Mapping[str, object]:
        def away() -> Callers:
            raise UnavailableError("the database does not answer")

        pairs = CertificatePairs(part(run=host.run), host.authority, "local")
        held = ApiPart("local", {}, dict, away, host.authorities, host.told.append)
        return await held.variables(AT, pairs)

    await host.given()
    assert (await variables())["relay_credentials"] == ["", ""]
    assert [line.partition(":")[0] for line in host.told] == [
        f"process {number} of the users' API gets no new certificate for the relay" for number in (1, 2)
    ]


def connector(host: Host) -> ConnectorPart:
    credentials = RelayCredentials(CONNECTOR, "the connector", lambda: host.callers, host.authorities, host.told.append)
    keys = {"sockets_key": "k" * 64, "telegram_token": "1:t"}
    return ConnectorPart("local", {"messengers": {"telegram_bot": "our_bot"}}, lambda: keys, credentials, (7001,))


async def test_the_connector_gets_its_keys_and_once_a_certificate_as_a_caller_of_its_own(host: Host) -> None:
    pairs = CertificatePairs(part(run=host.run), host.authority, "local")
    first = await connector(host).variables(AT, pairs)
    assert (first["sockets_key"], first["telegram_token"]) == ("k" * 64, "1:t")
    assert [caller.name for caller in host.registry.relay_callers.list()] == [CONNECTOR]
    host.files["/var/lib/hermesops-connector/relay.pem"] = str(first["relay_credential"])
    assert (await connector(host).variables(AT, pairs))["relay_credential"] == ""
    host.registry.relay_callers.revoke(CONNECTOR, why="test")
    assert (await connector(host).variables(AT, pairs))["relay_credential"]
    assert "1:t" not in repr(connector(host))
    assert first["redis"] is True


def half(
    home: Path, own: Mapping[str, str] | None = None, *, has_project: bool = True, is_served: bool = True
) -> UsersHalf:
    """The users' half of a local world; ``own`` are the operator's settings."""
    given = {f"HERMESOPS_{name}": value for name, value in (own or {}).items()}
    env = Environment.load("local", {"HOME": str(home), "HERMESOPS_HOME": str(home), **given})
    url = "http://127.0.0.1:7001"
    endpoint = Endpoint(
        f"{url}/api/v1",
        "key",
        None,
        "http://router",
        None,
        ("10.0.0.1",),
        7070,
        issuer_url=f"{url}/issuer",
        composio_url=f"{url}/composio",
        composio_key="ak_1",
    )
    project_key, unused = "ak_1" if has_project else "", part()
    return UsersHalf(
        env, endpoint, env.settings.messengers, EDGE, project_key, dict, unused, str, print, 7001, is_served
    )


def test_in_a_local_world_users_sign_in_at_its_issuer_and_agents_call_the_door(tmp_path: Path) -> None:
    users = half(tmp_path)
    assert users.settings["web.origin"] == f"https://{EDGE}"
    assert users.settings["web.keys_url"] == "http://127.0.0.1:7001/issuer/keys"
    assert users.settings["connections.agents_url"] == f"https://{EDGE}/mcp"
    assert str(users.settings["connections.services"]).startswith("gmail=ac_gmail,")
    assert [part_.role for part_ in users.parts] == [
        "hermes_platform_api",
        "hermes_platform_connections",
        "hermes_platform_edge",
    ]
    assert users.links == {
        "chat_page": f"https://{EDGE}/hermes-max/chat",
        "api": f"https://{EDGE}/api/hermes",
        "agents": f"https://{EDGE}/mcp",
    }


def test_an_operators_own_issuer_and_address_win(tmp_path: Path) -> None:
    own = {"WEB_ORIGIN": "https://agents.example", "WEB_ISSUER": "https://issuer.example"}
    users = half(tmp_path, own, has_project=False)
    assert users.settings == {"web.origin": "https://agents.example"}
    [api, edge] = users.parts
    assert isinstance(api, ApiPart)
    assert api.settings == {"web": {"issuer": "https://issuer.example", "origin": "https://agents.example"}}
    assert edge.role == "hermes_platform_edge"
    assert "agents" not in users.links


def test_with_a_bot_agents_open_their_sockets_at_the_door(tmp_path: Path) -> None:
    own = {"MESSENGERS_TELEGRAM_BOT": "our_bot", "MESSENGERS_TELEGRAM_URL": "http://127.0.0.1:7009/telegram"}
    users = half(tmp_path, own, has_project=False)
    [api, messengers, edge] = users.parts
    assert isinstance(api, ApiPart)
    assert isinstance(messengers, ConnectorPart)
    assert messengers.settings == api.settings
    assert messengers.settings["messengers"] == {
        "agents_url": f"https://{EDGE}",
        "telegram_bot": "our_bot",
        "telegram_url": "http://127.0.0.1:7009/telegram",
    }
    assert messengers.loopback_ports == (7001, 7009)
    assert isinstance(edge, PlainPart)
    assert edge.values["has_connector"] is True
    assert users.links["sockets"] == f"https://{EDGE}/relay"
    elsewhere = half(tmp_path, {**own, "MESSENGERS_AGENTS_URL": "https://agents.example"})
    assert elsewhere.links["sockets"] == "https://agents.example/relay"
    assert "sockets" not in half(tmp_path).links


def test_a_bot_at_slack_alone_has_a_connector_that_reaches_its_stand_in(tmp_path: Path) -> None:
    own = {"MESSENGERS_SLACK_APP": "A0123456789", "MESSENGERS_SLACK_URL": "http://127.0.0.1:7010/slack"}
    [_, messengers, _] = half(tmp_path, own, has_project=False).parts
    assert isinstance(messengers, ConnectorPart)
    assert messengers.loopback_ports == (7001, 7010)


def test_each_bot_needs_its_token() -> None:
    secrets = dict[str, str]()
    held = cast(
        "Secrets",
        SimpleNamespace(
            find=lambda spec: secrets.get(spec.name), made=lambda spec, text: secrets.setdefault(spec.name, text)
        ),
    )
    bots = {
        "telegram_bot": "our_bot",
        "slack_app": "A0123456789",
        "whatsapp_number": "15550001111",
        "discord_app": "1" * 18,
    }
    settings = MessengerSettings.model_validate(bots)
    for name in ("telegram.token", "slack.token", "whatsapp.token", "discord.token"):
        with pytest.raises(UsageError, match=name):
            connector_keys(settings, held)
        secrets[name] = f"of {name}"
    keys = connector_keys(settings, held)
    assert {name: keys[name] for name in ("telegram_token", "slack_token", "whatsapp_token", "discord_token")} == {
        "telegram_token": "of telegram.token",
        "slack_token": "of slack.token",
        "whatsapp_token": "of whatsapp.token",
        "discord_token": "of discord.token",
    }
    assert len(keys["sockets_key"].strip()) == 64
    assert connector_keys(MessengerSettings.model_validate({}), held) == {}


STRIPE = "http://127.0.0.1:7001/stripe"


def with_stripe(home: Path, own: Mapping[str, str] | None = None) -> UsersHalf:
    """In a world with a stand-in of Stripe."""
    users = half(home, own)
    endpoint = replace(
        users.endpoint,
        stripe_url=STRIPE,
        stripe_prices={"price_light": Plan.LIGHT},
        stripe_meters={Meter.INSTANCE_DAYS: "days"},
        stripe_metered_prices=frozenset({"price_days"}),
    )
    return replace(users, endpoint=endpoint, authorities=lambda: "PEM")


def test_the_platform_asks_the_worlds_stripe_and_sells_at_its_prices(tmp_path: Path) -> None:
    settings = with_stripe(tmp_path).settings
    env = Environment.load("local", {"HOME": str(tmp_path), "HERMESOPS_HOME": str(tmp_path)})
    billing: Any = host_users_settings(env, settings)["billing"]
    assert billing == {
        "base_url": STRIPE,
        "prices": {"price_light": "light"},
        "meters": {"instance_days": "days"},
        "metered_since": "0001-01-01",
        "metered_prices": ["price_days"],
    }
    assert BillingSettings.model_validate(billing).prices == {"price_light": Plan.LIGHT}
    assert not [name for name in half(tmp_path).settings if name.startswith("billing.")], "there is none"


def test_an_operators_own_prices_and_stripe_win(tmp_path: Path) -> None:
    settings = with_stripe(tmp_path, {"BILLING_PRICES": "price_own=heavy"}).settings
    assert settings["billing.prices"] == {"price_own": "heavy"}
    elsewhere = with_stripe(tmp_path, {"BILLING_BASE_URL": "https://stripe.example"}).settings
    assert not [name for name in elsewhere if name.startswith("billing.")]


def test_reports_go_to_the_door_under_the_name_of_the_api(tmp_path: Path) -> None:
    file = tmp_path / "door.json"
    assert door_in(file) == UsersDoor(), "each goes to the address that its vendor was told"
    with_stripe(tmp_path).open_door(file, f"https://{EDGE}", "https://agents.example/api/hermes")
    door = door_in(file)
    assert door == UsersDoor(f"https://{EDGE}", "agents.example", "PEM")
    assert door.address_of("http://localhost:1/webhooks/telegram") == f"https://{EDGE}/webhooks/telegram"
    assert door.address_of("") == "", "a vendor that was told of none"


STAND_INS = {
    "telegram_bot": "local_bot",
    "telegram_url": "http://127.0.0.1:1/telegram",
    "discord_app": "1000000000000000001",
}


def test_the_worlds_bots_are_the_platforms_unless_the_operator_has_one(tmp_path: Path) -> None:
    users = half(tmp_path)
    users = replace(users, endpoint=replace(users.endpoint, messengers=STAND_INS))
    settings = replace(users, messengers=MessengerSettings.model_validate(STAND_INS)).settings
    assert {name: value for name, value in settings.items() if name.startswith("messengers.")} == {
        "messengers.telegram_bot": "local_bot",
        "messengers.telegram_url": "http://127.0.0.1:1/telegram",
        "messengers.discord_app": "1000000000000000001",
        "messengers.agents_url": f"https://{EDGE}",
    }
    own = half(tmp_path, {"MESSENGERS_TELEGRAM_BOT": "my_bot"})
    settings = replace(own, endpoint=replace(own.endpoint, messengers=STAND_INS)).settings
    assert [name for name in settings if name.startswith("messengers.")] == ["messengers.agents_url"]


def test_nobody_is_served_from_a_registry_that_is_not_the_environments(tmp_path: Path) -> None:
    users = half(tmp_path, is_served=False)
    assert (users.parts, users.links) == ([], {})
