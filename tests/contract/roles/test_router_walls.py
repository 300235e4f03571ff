"""The router's walls, in the kernel: a network namespace with our rules, a listener, and programs of several users.

Nothing of this computer's network is touched: the interfaces are made inside.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.releases.role_files import rendered
from tests.support.suite.prerequisites import require

ROUTER, OTHER = 64_001, 64_002
"""Numbers of users; rules take them as well as names."""

PROGRAM = """
import os, socket, subprocess, sys
rules, router, other = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
def run(*words):
    subprocess.run(words, check=True)
run("ip", "link", "set", "lo", "up")
for one in ("10.0.0.7/24", "203.0.113.7/24"):
    run("ip", "addr", "add", one, "dev", "lo")
listeners = [socket.create_server(("0.0.0.0", port)) for port in (5432, 9090, 9093, 3100, 7001, 443)]
run("nft", "-f", rules)
run("nft", "-f", rules)
def opens(user, address, port):
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    os.setuid(user)
    one = socket.socket()  # its user is who makes it
    one.settimeout(5)
    try:
        one.connect((address, port))
    except BaseException as error:
        os._exit(1 if isinstance(error, ConnectionRefusedError) else 2)
    os._exit(0)
for user in (router, other, 0):
    for address, port in (("127.0.0.1", 5432), ("127.0.0.1", 9090), ("127.0.0.1", 9093), ("127.0.0.1", 3100),
                          ("10.0.0.7", 9090), ("127.0.0.1", 7001), ("203.0.113.7", 443)):
        print(user, address, port, int(opens(user, address, port)), flush=True)
"""


@pytest.fixture
def rules(tmp_path: Path) -> Path:
    require(os.geteuid() == 0, "root")
    given = {"hermes_platform_llm_router_provider_urls": {"openai": "http://127.0.0.1:7001/v1"}}
    text = rendered("hermes_platform_llm_router", "router-walls.nft.j2", given)
    path = tmp_path / "rules.nft"
    path.write_text(text.replace('"hermes-router"', str(ROUTER)))
    return path


def test_the_router_opens_the_registry_and_its_provider_and_others_open_everything(rules: Path) -> None:
    words = ["unshare", "--net", sys.executable, "-I", "-c", PROGRAM, str(rules), str(ROUTER), str(OTHER)]
    done = subprocess.run(words, capture_output=True, text=True, check=True, timeout=120)

    is_open_by_rule = {tuple(line.split()[:3]): line.endswith("1") for line in done.stdout.splitlines()}
    opened = [
        (address, port) for (user, address, port), is_open in is_open_by_rule.items() if user == str(ROUTER) and is_open
    ]
    assert opened == [("127.0.0.1", "5432"), ("127.0.0.1", "7001")]
    assert all(is_open for (user, *_), is_open in is_open_by_rule.items() if user != str(ROUTER))
    assert len(is_open_by_rule) == 21
