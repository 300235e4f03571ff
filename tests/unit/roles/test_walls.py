"""Each unit of a platform's host names what it may reach, or a reason why nothing bounds it."""

import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from hermesops.base import assets
from tests.support.releases.role_files import rendered

ROUTER, INGEST, STORE, API, CONNECTIONS, CONNECTOR, CONSOLE = (
    f"hermes_platform_{name}"
    for name in ("llm_router", "monitoring", "object_store", "api", "connections", "connector", "console")
)
GIVEN: Mapping[str, object] = {"hermes_platform_llm_router_database_port": 5432}

UNBOUNDED: Mapping[str, str] = {
    "hermes-platform-alarms": "asks AWS by names, and Alertmanager; what it reads are the account's own alarms",
    "hermes-platform-alertmanager": "sends alerts to wherever the operator sets; Prometheus and nginx alone feed it",
    "hermes-platform-database-passwords": "asks AWS by names; nobody feeds it",
    "hermes-platform-edge": "answers everybody; passes on to the sockets of the users' API alone",
    "hermes-platform-nginx": "answers everybody; passes on to addresses that its configuration names, and to no other",
    "hermes-platform-postgresql": "answers whoever has a certificate; opens no connection but a backup's",
    "hermes-platform-postgresql-backup@": "brings backups to the object store that the operator sets",
    "hermes-platform-postgresql-metrics": "asks the database beside it; nobody feeds it",
    "hermes-platform-redis": "answers whoever has a certificate; opens no connection",
    "hermes-platform-revocations": "asks the service for machines, wherever it is; nobody else feeds it",
    "hermes-platform-router-nginx": "answers everybody; passes on to the router's socket alone",
    "hermesops-identity": "asks the registry and, on AWS, its secrets; hands machines what the registry says",
    "hermesops-migrate": "asks the registry alone, before others start",
    "hermesops-monitor": "works on the whole fleet: the vendor, machines, the platform",
    "hermesops-relay": "carries requests to whichever machine the registry names, by the vendor's proxy",
    "hermesops-vendor-api": "passes a local world's API on; it is on no rented host",
    "hermesops-worker": "works on the whole fleet: the vendor, machines, the platform, stores",
}


def _units() -> dict[str, tuple[str, str]]:
    rules = {}
    for path in sorted(assets.folder("roles").glob("hermes_platform_*/templates/*.service.j2")):
        rules[path.name.removesuffix(".service.j2")] = (path.parents[1].name, path.read_text())
    return rules


def _is_bounded(unit: str) -> bool:
    return "\nIPAddressDeny=any\nIPAddressAllow=localhost\n" in unit or "\nExecStartPre=+/usr/sbin/nft -f " in unit


def test_every_unit_of_a_platform_has_walls_or_a_reason() -> None:
    units = _units()
    bounded = {name for name, (_, text) in units.items() if _is_bounded(text)}

    assert {name for name in units if name not in bounded} == set(UNBOUNDED)
    assert bounded == {
        "hermesops-connections",
        "hermesops-connector",
        "hermesops-console",
        "hermes-platform-host-exporter",
        "hermes-platform-ingest",
        "hermes-platform-loki",
        "hermes-platform-object-store",
        "hermes-platform-object-store-iam",
        "hermes-platform-prometheus",
        "hermes-platform-router",
        "hermesops-api",
    }


@pytest.mark.parametrize(
    ("role", "name", "user"),
    [
        (ROUTER, "router-walls.nft", "hermes-router"),
        (INGEST, "ingest-walls.nft", "hermes-ingest"),
        (STORE, "object-store-walls.nft", "hermes-object-store"),
        (API, "api-walls.nft", "hermesops-api"),
        (CONNECTOR, "connector-walls.nft", "hermesops-connector"),
        (CONSOLE, "console-walls.nft", "hermesops-console"),
    ],
)
def test_walls_end_with_a_refusal_for_their_one_user_and_are_installed_and_read_again(
    role: str, name: str, user: str
) -> None:
    rules = rendered(role, f"{name}.j2", GIVEN)
    lines = [line.strip() for line in rules.splitlines() if line.strip() and not line.strip().startswith("#")]
    loaded = [path for path in _tasks(role) if name in path.read_text() or "_walls }}" in path.read_text()]

    assert f'meta skuid != "{user}" accept' in lines
    assert lines[-3:] == ["reject", "}", "}"]
    assert [text for _, text in _units().values() if f"User={user}" in text or "_user }}" in text]
    assert len(loaded) >= 2, "written, and listed with its unit, which is restarted when it changes"


def _tasks(role: str) -> list[Path]:
    folder = assets.folder("roles") / role
    return [*folder.glob("tasks/*.yml"), *folder.glob("vars/*.yml")]


def _opened(rules: str) -> list[str]:
    """What a rule lets through after replies and names, in order."""
    lines = [line.strip() for line in rules.splitlines() if re.search(r"\b(accept|reject\b.*)$", line)]
    return [line for line in lines if "skuid" not in line and "established" not in line and "dport 53 " not in line]


def test_ingest_reaches_each_port_that_its_unit_tells_it_to_ask_and_no_other() -> None:
    given = {"hermes_platform_monitoring_identity_url": ""}
    unit = rendered(INGEST, "hermes-platform-ingest.service.j2", given)
    matches = [re.search(rf"--{name}-port=(\d+)", unit) for name in ("prometheus", "nginx")]
    rules = _opened(rendered(INGEST, "ingest-walls.nft.j2", given))

    ports = ", ".join(matched[1] for matched in matches if matched)
    assert rules == [f"fib daddr type local tcp dport {{ {ports} }} accept", "reject"]


def test_the_router_reaches_providers_and_the_registry_and_nothing_of_the_host() -> None:
    rules = _opened(rendered(ROUTER, "router-walls.nft.j2", GIVEN))

    assert rules[0] == "tcp dport 5432 accept"
    assert rules[1].startswith("fib daddr type local reject")
    assert all(network in rules[2] for network in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"))
    assert all(network in rules[3] for network in ("::/96", "fc00::/7", "fe80::/10"))
    assert rules[4:] == ["tcp dport 443 accept", "reject"]


def test_the_users_api_reaches_the_registry_the_relay_and_its_issuer_and_nothing_else_of_the_host() -> None:
    rules = _opened(rendered(API, "api-walls.nft.j2"))

    assert rules[:2] == ["tcp dport 5432 accept", "ip daddr 127.0.0.1 tcp dport 8448 accept"]
    assert rules[2].startswith("fib daddr type local reject")
    assert all(network in rules[3] for network in ("10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "192.168.0.0/16"))
    assert all(network in rules[4] for network in ("::/96", "fc00::/7", "fe80::/10"))
    assert rules[5:] == ["tcp dport 443 accept", "reject"]
    shared = _opened(rendered(API, "api-walls.nft.j2", {"hermes_platform_api_redis": True}))
    assert [rule for rule in shared if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 6380 accept"]
    elsewhere = _opened(rendered(API, "api-walls.nft.j2", {"hermes_platform_api_redis_port": 6379}))
    assert [rule for rule in elsewhere if rule not in rules] == ["tcp dport 6379 accept"]
    assert elsewhere.index("tcp dport 6379 accept") == 2, "before networks without a way to the internet are refused"
    of_world = _opened(rendered(API, "api-walls.nft.j2", {"hermes_platform_api_loopback_ports": [7001]}))
    assert [rule for rule in of_world if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 7001 accept"]


def test_the_process_of_connections_reaches_the_registry_and_the_internet_and_nothing_else_of_the_host() -> None:
    rules = _opened(rendered(CONNECTIONS, "connections-walls.nft.j2"))

    assert rules[0] == "tcp dport 5432 accept"
    assert rules[1].startswith("fib daddr type local reject")
    assert rules[-2:] == ["tcp dport 443 accept", "reject"]
    assert len(rules) == 6
    of_world = _opened(
        rendered(CONNECTIONS, "connections-walls.nft.j2", {"hermes_platform_connections_loopback_ports": [7001]})
    )
    assert [rule for rule in of_world if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 7001 accept"]


def test_the_connector_reaches_the_registry_the_relay_and_messengers_and_nothing_else_of_the_host() -> None:
    rules = _opened(rendered(CONNECTOR, "connector-walls.nft.j2"))

    assert rules[:2] == ["tcp dport 5432 accept", "ip daddr 127.0.0.1 tcp dport 8448 accept"]
    assert rules[2].startswith("fib daddr type local reject")
    assert rules[-2:] == ["tcp dport 443 accept", "reject"]
    assert len(rules) == 7
    of_world = _opened(
        rendered(CONNECTOR, "connector-walls.nft.j2", {"hermes_platform_connector_loopback_ports": [7001]})
    )
    assert [rule for rule in of_world if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 7001 accept"]
    woken = _opened(rendered(CONNECTOR, "connector-walls.nft.j2", {"hermes_platform_connector_redis": True}))
    assert [rule for rule in woken if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 6380 accept"]


def test_the_console_reaches_the_registry_monitoring_and_its_issuer_and_nothing_else_of_the_host() -> None:
    rules = _opened(rendered(CONSOLE, "console-walls.nft.j2"))

    assert rules[:2] == ["tcp dport 5432 accept", "tcp dport 8443 accept"]
    assert rules[2].startswith("fib daddr type local reject")
    assert rules[-2:] == ["tcp dport 443 accept", "reject"]
    assert len(rules) == 7
    of_world = _opened(rendered(CONSOLE, "console-walls.nft.j2", {"hermes_platform_console_loopback_ports": [7001]}))
    assert [rule for rule in of_world if rule not in rules] == ["ip daddr 127.0.0.1 tcp dport 7001 accept"]


@pytest.mark.parametrize(
    ("url", "rule"),
    [
        ("http://10.20.0.1:7001/v1", "ip daddr 10.20.0.1 tcp dport 7001 accept"),
        ("https://10.20.0.1/v1?key=x", "ip daddr 10.20.0.1 tcp dport 443 accept"),
        ("http://models.example", "fib daddr type != local tcp dport 80 accept"),
        ("https://models.example:8443/a:1", "fib daddr type != local tcp dport 8443 accept"),
    ],
)
def test_a_providers_own_url_is_one_address_and_port_more(url: str, rule: str) -> None:
    given = {**GIVEN, "hermes_platform_llm_router_provider_urls": {"openai": url}}
    text = rendered(ROUTER, "router-walls.nft.j2", given)
    rules = _opened(text)

    assert rules[1] == rule
    assert rules[2].startswith("fib daddr type local reject")
    assert "key=x" not in text
