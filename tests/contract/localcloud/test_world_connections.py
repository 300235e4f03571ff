"""How many connections one machine of a local world may have to this computer, in the kernel, in two namespaces."""

import os
import subprocess
from collections.abc import Iterator
from ipaddress import IPv4Network

import pytest

from hermesops.localcloud.drivers.nspawn.computer import network
from tests.contract.roles.test_open_port_connections import (
    ADA,
    BOB,
    CLIENT,
    HOST,
    LISTENER,
    MOST,
    Client,
    _entered,
    _inside,
    _namespaced,
)
from tests.support.suite.prerequisites import require


@pytest.fixture
def client(monkeypatch: pytest.MonkeyPatch) -> Iterator[Client]:
    require(os.geteuid() == 0, "root")
    monkeypatch.setattr(network, "MOST_CONNECTIONS", MOST)
    world = network.Network("lct", IPv4Network("198.51.100.0/24"), [8443, 8444])
    with _namespaced() as computer, _namespaced() as machine:
        _inside(machine, f"ip link add v0 type veth peer name lct-1 netns {computer.pid}")
        _inside(machine, *(f"ip addr add {name}/24 dev v0" for name in (ADA, BOB)), "ip link set v0 up")
        _inside(computer, f"ip addr add {HOST}/24 dev lct-1", "ip link set lct-1 up")
        rules = ["nsenter", "--net", "--target", str(computer.pid), "nft", "-f", "-"]
        admitted = "\n".join(f'add element inet lct machines {{ "lct-1" . {name} }}' for name in (ADA, BOB))
        subprocess.run(rules, input=f"{world._ruleset()}\n{admitted}\n", text=True, check=True)
        with _entered(computer, LISTENER) as listener, _entered(machine, CLIENT) as asking:
            assert listener.stdout
            assert listener.stdout.readline() == "listens\n"
            yield Client(asking)


def test_one_machine_takes_no_place_of_anothers(client: Client) -> None:
    assert [client.opens(ADA, port) for port in (8443, 8444, 8443, 8444, 8443)] == [True] * MOST
    assert not client.opens(ADA), "whichever of the ports"
    assert [client.opens(BOB) for _ in range(MOST)] == [True] * MOST
