"""Whoever is on a network beside this computer reaches nothing of a local world, whatever routes they set."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from ipaddress import IPv4Network
from secrets import token_hex

import pytest

from hermesops.localcloud.drivers.nspawn.computer.network import Network

pytestmark = pytest.mark.machines

SUBNET = IPv4Network("10.213.4.0/22")
PORT = 18080
LISTENER = f"""
import socket
with socket.create_server(("0.0.0.0", {PORT})) as server:
    print("listens", flush=True)
    while True:
        server.accept()[0].close()
"""
CALLER = f"""
import socket, sys
try:
    socket.create_connection((sys.argv[1], {PORT}), timeout=2).close()
except TimeoutError:
    print("silence")
else:
    print("connected")
"""


def _in(namespace: str, *command: str, given: str = "") -> str:
    words = ["ip", "netns", "exec", namespace, *command]
    return subprocess.run(words, input=given, capture_output=True, text=True, check=True, timeout=30).stdout.strip()


def _connects(namespace: str, address: str) -> str:
    return _in(namespace, sys.executable, "-c", CALLER, address)


@contextlib.contextmanager
def _namespaces() -> Iterator[tuple[str, str]]:
    """A computer that a world is on, and its neighbour: 192.0.2.1 and .2, of RFC 5737's block for documents."""
    mark = token_hex(3)
    computer, neighbour = f"t{mark}c", f"t{mark}n"
    try:
        for namespace in (computer, neighbour):
            subprocess.run(["ip", "netns", "add", namespace], check=True)
            _in(namespace, "ip", "link", "set", "lo", "up")
        _in(computer, "ip", "link", "add", "lan0", "type", "veth", "peer", "name", "lan0", "netns", neighbour)
        for namespace, address in ((computer, "192.0.2.1/24"), (neighbour, "192.0.2.2/24")):
            _in(namespace, "ip", "addr", "add", address, "dev", "lan0")
            _in(namespace, "ip", "link", "set", "lan0", "up")
        yield computer, neighbour
    finally:
        for namespace in (computer, neighbour):
            subprocess.run(["ip", "netns", "del", namespace], check=False, capture_output=True)


@pytest.fixture
def computers() -> Iterator[tuple[str, str]]:
    with _namespaces() as (computer, neighbour):
        network = Network("lcneighb", SUBNET, [PORT])
        _in(computer, "ip", "link", "add", "lcneighbgw", "type", "veth", "peer", "name", "lcneighbgp")
        _in(computer, "ip", "addr", "add", f"{network.gateway}/32", "dev", "lcneighbgw")
        _in(computer, "ip", "link", "set", "lcneighbgw", "up")
        _in(computer, "ip", "link", "set", "lcneighbgp", "up")
        _in(computer, "nft", "-f", "-", given="table inet lcneighb\n" + network._ruleset())
        _in(neighbour, "ip", "route", "add", str(SUBNET), "via", "192.0.2.1")
        words = ["ip", "netns", "exec", computer, sys.executable, "-c", LISTENER]
        with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as listener:
            try:
                assert listener.stdout
                assert listener.stdout.readline() == "listens\n"
                yield computer, neighbour
            finally:
                listener.kill()


def test_a_neighbour_with_a_route_to_the_gateway_reaches_nothing_on_it(computers: tuple[str, str]) -> None:
    computer, neighbour = computers
    gateway = str(SUBNET[1])
    assert _connects(computer, gateway) == "connected"
    assert _connects(neighbour, gateway) == "silence"
    assert _connects(neighbour, "192.0.2.1") == "connected"  # what is not the world's is none of its business
