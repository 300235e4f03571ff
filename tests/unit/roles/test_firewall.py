"""The firewall of role hermes_base: open to nobody, but for the ports that a host of the platform serves at."""

from tests.support.releases.role_files import rendered

GIVEN = {
    "hermes_base_broker_addresses": ["10.0.0.1"],
    "hermes_base_daemon_port": 7070,
    "__hermes_base_agent": {"stdout": "990"},
}


def test_a_machine_of_a_user_has_no_open_port() -> None:
    rules = rendered("hermes_base", "firewall.nft.j2", GIVEN)
    opened = [line for line in rules.splitlines() if "dport" in line and line.endswith("accept")]
    assert [line for line in opened if "saddr" not in line and "skuid" not in line] == []


def test_a_host_of_the_platform_has_those_it_serves_at() -> None:
    rules = rendered("hermes_base", "firewall.nft.j2", {**GIVEN, "hermes_base_open_ports": [8443, 9443]})
    assert "\t\ttcp dport { 8443, 9443 } accept\n" in rules


def test_connections_to_open_ports_are_bounded_where_that_is_wanted() -> None:
    opened = {**GIVEN, "hermes_base_open_ports": [8443]}
    assert "ct count" not in rendered(
        "hermes_base", "firewall.nft.j2", {**opened, "hermes_base_open_port_connections": 0}
    )
    rules = rendered("hermes_base", "firewall.nft.j2", {**opened, "hermes_base_open_port_connections": 100})
    assert rules.index("ct count over 100") < rules.index("tcp dport { 8443 } accept"), "else it would come too late"
    assert "ct count" not in rendered(
        "hermes_base", "firewall.nft.j2", {**GIVEN, "hermes_base_open_port_connections": 100}
    )
