"""The firewall of role hermes_base: open to nobody, but for the ports that a host of the platform serves at."""

import re

from hermesops.base import assets
from hermesops.infra.stacks.platform.aws.hosts.user_data import ACT_AS_HOST
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


def test_a_port_for_some_networks_is_open_to_them_alone_and_before_connections_are_counted() -> None:
    """A load balancer has one address for all clients."""
    given = {
        "hermes_base_open_ports": [8443],
        "hermes_base_open_port_connections": 100,
        "hermes_base_open_ports_from": {"8449": ["10.60.64.0/20", "10.60.80.0/20"]},
    }
    rules = rendered("hermes_base", "firewall.nft.j2", {**GIVEN, **given})

    line = "tcp dport 8449 ip saddr { 10.60.64.0/20, 10.60.80.0/20 } accept"
    assert [text.strip() for text in rules.splitlines() if "8449" in text] == [line]
    assert rules.index(line) < rules.index("ct count over 100")
    assert rules.index("chain input") < rules.index(line) < rules.index("chain output")


def test_only_users_of_hermesops_own_services_act_with_the_role_of_a_host_at_aws() -> None:
    """By number, before the rule that refuses everybody; the router, which tenants feed, is none of them."""
    users = {"hermesops": 991, "hermesops-identity": 992, "hermesops-relay": 994, "hermes-alarms": 993}
    assert set(ACT_AS_HOST) == set(users)
    document = {"results": [{"name": name, "uid": uid} for name, uid in users.items()]}

    rules = rendered("hermes_base", "firewall.nft.j2", {**GIVEN, "__hermes_base_told": document})

    lines = [line.strip() for line in rules.splitlines() if "skuid" in line and ("169.254" in line or "fd00:" in line)]
    assert lines == [
        "meta skuid { 991, 992, 994, 993 } ip daddr 169.254.169.254 tcp dport 80 accept",
        "meta skuid { 991, 992, 994, 993 } ip6 daddr fd00:ec2::254 tcp dport 80 accept",
        "meta skuid != 0 ip daddr 169.254.0.0/16 reject",
        "meta skuid != 0 ip6 daddr { fe80::/10, fd00:ec2::254 } reject",
    ]


def test_elsewhere_nobody_but_root_asks_what_a_vendor_tells_its_machines() -> None:
    for given in (GIVEN, {**GIVEN, "__hermes_base_told": {"results": []}}):
        assert "169.254.169.254" not in rendered("hermes_base", "firewall.nft.j2", given)


def test_each_unit_at_aws_that_asks_amazon_runs_as_one_who_may() -> None:
    """Also a unit that is added later: whose programs hold AWS's library are those of these two roles."""
    may = {*ACT_AS_HOST, "root"}
    units = {
        path.name: re.findall(r"^(?:User|DynamicUser)=(.*)$", path.read_text(), re.MULTILINE) or ["root"]
        for role in ("hermes_platform_aws", "hermes_platform_control")
        for path in (assets.folder("roles") / role / "templates").glob("*.service.j2")
    }
    named = {"{{ __hermes_platform_aws_alarms_user }}": "hermes-alarms"}

    assert len(units) > 5
    assert {name: users for name, users in units.items() if not {named.get(user, user) for user in users} <= may} == {
        "hermesops-vendor-api.service.j2": ["yes"]  # of local worlds alone: passes a socket on
    }
