"""The firewall's limit of connections, in the kernel: two network namespaces, one with our rules and a listener.

Nothing of this computer's network is touched: the cable between them is made inside.
"""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from hermesops.base.waiting import pause_blocking
from tests.support.releases.role_files import rendered
from tests.support.suite.prerequisites import require

MOST = 5
RULES = {
    "hermes_base_broker_addresses": ["192.0.2.1"],
    "hermes_base_daemon_port": 7070,
    "__hermes_base_agent": {},
    "hermes_base_open_ports": [8443, 8444],
    "hermes_base_open_port_connections": MOST,
    "hermes_base_open_ports_from": {"8449": ["198.51.100.2/32"]},
}
LISTENER = """
import selectors, socket
chosen = selectors.DefaultSelector()
for port in (8443, 8444, 8449):
    listener = socket.create_server(("::", port), family=socket.AF_INET6, dualstack_ipv6=True)
    chosen.register(listener, selectors.EVENT_READ, "listens")
print("listens", flush=True)
while True:
    for key, _ in chosen.select():
        if key.data:
            one, _ = key.fileobj.accept()
            one.send(b"x")
            chosen.register(one, selectors.EVENT_READ)
        elif not key.fileobj.recv(1):
            chosen.unregister(key.fileobj)
            key.fileobj.close()
"""
CLIENT = """
import socket, sys
held = []
def opens(source, target, port):
    family = socket.AF_INET6 if ":" in source else socket.AF_INET
    one = socket.socket(family)
    one.settimeout(5)
    one.bind((source, 0))
    try:
        one.connect((target, port))
        assert one.recv(1) == b"x"
    except OSError:
        return False
    held.append((source, one))
    return True
for line in sys.stdin:
    word, source, target, port = line.split()
    if word == "open":
        print(int(opens(source, target, int(port))), flush=True)
    else:
        for pair in [pair for pair in held if pair[0] == source]:
            pair[1].close()
            held.remove(pair)
        print("closed", flush=True)
"""
HOST, HOST6 = "198.51.100.1", "2001:db8::1"
ADA, BOB = "198.51.100.2", "198.51.100.3"
ADA6, ADAS_OTHER, BOB6 = "2001:db8::2", "2001:db8::3", "2001:db8:0:1::2"


class Client:
    """A process in the other namespace."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def opens(self, source: str, port: int = 8443) -> bool:
        """Open one more connection from an address and keep it; whether the host takes it."""
        return self._ask("open", source, port) == "1"

    def closes(self, source: str) -> None:
        """Close all of an address."""
        assert self._ask("close", source, 0) == "closed"

    def _ask(self, word: str, source: str, port: int) -> str:
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.write(f"{word} {source} {HOST6 if ':' in source else HOST} {port}\n")
        self._process.stdin.flush()
        return self._process.stdout.readline().strip()


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Client]:
    require(os.geteuid() == 0, "root")
    rules = tmp_path / "rules.nft"
    rules.write_text(rendered("hermes_base", "firewall.nft.j2", RULES))
    with _namespaced() as host, _namespaced() as other:
        addresses = [f"{name}/24" for name in (ADA, BOB)] + [f"{name}/48" for name in (ADA6, ADAS_OTHER, BOB6)]
        _inside(other, f"ip link add v0 type veth peer name v1 netns {host.pid}")
        _inside(other, *(f"ip addr add {address} dev v0 {'nodad' if ':' in address else ''}" for address in addresses))
        _inside(other, "ip link set v0 up")
        _inside(host, f"ip addr add {HOST}/24 dev v1", f"ip addr add {HOST6}/48 dev v1 nodad", "ip link set v1 up")
        _inside(host, f"nft -f {rules}")
        with _entered(host, LISTENER) as listener, _entered(other, CLIENT) as asking:
            assert listener.stdout
            assert listener.stdout.readline() == "listens\n"
            yield Client(asking)


@contextmanager
def _namespaced() -> Iterator["subprocess.Popen[str]"]:
    words = ["unshare", "--net", "sh", "-c", "ip link set lo up; echo made; exec sleep infinity"]
    with _running(words) as process:
        assert process.stdout
        assert process.stdout.readline() == "made\n"
        yield process


@contextmanager
def _entered(namespace: "subprocess.Popen[str]", script: str) -> Iterator["subprocess.Popen[str]"]:
    words = ["nsenter", "--net", "--target", str(namespace.pid), sys.executable, "-c", script]
    with _running(words) as process:
        yield process


@contextmanager
def _running(words: Sequence[str]) -> Iterator["subprocess.Popen[str]"]:
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def _inside(namespace: "subprocess.Popen[str]", *commands: str) -> None:
    for command in commands:
        subprocess.run(["nsenter", "--net", "--target", str(namespace.pid), *command.split()], check=True)


def _until(done: Callable[[], bool], what: str) -> None:
    for _ in range(50):
        if done():
            return
        pause_blocking(0.1)
    raise AssertionError(what)


def test_one_address_has_so_many_connections_and_others_theirs(client: Client) -> None:
    assert [client.opens(ADA, port) for port in (8443, 8444, 8443, 8444, 8443)] == [True] * MOST
    assert not client.opens(ADA), "whichever of the ports"
    assert not client.opens(ADA, 8444)
    assert [client.opens(BOB) for _ in range(MOST)] == [True] * MOST
    client.closes(ADA)
    _until(lambda: client.opens(ADA), "what is closed does not count")


def test_a_load_balancers_port_is_open_to_it_alone_and_for_any_number(client: Client) -> None:
    assert [client.opens(ADA, 8449) for _ in range(3 * MOST)] == [True] * 3 * MOST
    assert client.opens(ADA), "and counts for no other port"
    assert not client.opens(BOB, 8449)
    assert not client.opens(ADA6, 8449)


def test_of_ipv6_a_network_counts(client: Client) -> None:
    assert [client.opens(name) for name in (ADA6, ADAS_OTHER, ADA6, ADAS_OTHER, ADA6)] == [True] * MOST
    assert not client.opens(ADA6)
    assert not client.opens(ADAS_OTHER)
    assert client.opens(BOB6)
