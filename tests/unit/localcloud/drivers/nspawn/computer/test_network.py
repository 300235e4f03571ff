from ipaddress import IPv4Address, IPv4Network

import pytest

from hermesops.errors import RefusedError
from hermesops.localcloud.drivers.nspawn.computer.network import Network, pick_subnet

SUBNET = IPv4Network("10.213.4.0/22")


def test_a_world_gets_the_same_subnet_again_where_it_is_free() -> None:
    assert pick_subnet("a1b2c3", []) == pick_subnet("a1b2c3", [IPv4Network("192.168.0.0/16")])


def test_a_subnet_that_overlaps_anything_in_use_is_passed_over() -> None:
    first = pick_subnet("a1b2c3", [])
    for used in (first, IPv4Network((first[9], 32)), first.supernet(new_prefix=21)):
        other = pick_subnet("a1b2c3", [used])
        assert not other.overlaps(used)


def test_a_computer_without_a_free_subnet_is_refused() -> None:
    with pytest.raises(RefusedError, match="no free part"):
        pick_subnet("a1b2c3", [IPv4Network("10.0.0.0/8")])


def test_every_machine_has_an_address_of_its_own_that_is_not_the_gateways() -> None:
    network = Network("lcabcdef", SUBNET, [])
    addresses = [network.address(number) for number in range(1, SUBNET.num_addresses - 2)]
    assert len({network.gateway, *addresses}) == len(addresses) + 1
    assert all(address in SUBNET for address in addresses)
    assert SUBNET.broadcast_address not in addresses


@pytest.mark.parametrize("number", [0, -1, 1022, 5000])
def test_a_number_beyond_the_subnet_is_refused(number: int) -> None:
    with pytest.raises(RefusedError, match="no address"):
        Network("lcabcdef", SUBNET, []).address(number)


def test_the_firewall_lets_the_service_ports_of_the_gateway_in_and_drops_the_rest() -> None:
    rules = Network("lcabcdef", SUBNET, [9000, 18080])._ruleset()
    assert "ip daddr 10.213.4.1 tcp dport { 9000, 18080 } accept\n    drop" in rules
    assert "dport" not in Network("lcabcdef", SUBNET, [])._ruleset()


def test_the_longest_names_fit_the_kernels_fifteen_characters() -> None:
    link = "lcabcdef-1021"
    wiring = Network("lcabcdef", SUBNET, []).wiring(link, 1021)
    names = [word for line in wiring.splitlines() for word in line.split() if word.startswith("lcabcdef")]
    assert names
    assert max(len(name) for name in names) <= 15
    assert f"route add {IPv4Address('10.213.7.254')}/32 dev {link} src 10.213.4.1" in wiring


def test_one_machine_has_so_many_connections() -> None:
    """Before the rule that lets machines in, or it would come too late."""
    rules = Network("lcabcdef", SUBNET, [9000])._ruleset()

    bound = "ct state new add @open { ip saddr ct count over 512 } reject with tcp reset"
    assert rules.index(bound) < rules.index("tcp dport { 9000 } accept")
