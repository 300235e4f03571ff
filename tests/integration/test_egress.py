"""What an agent may reach from its own machine: neither the vendor's daemon nor what vendors tell machines."""

import json
import shlex
from collections.abc import AsyncIterator

import pytest

from hermesops.base.waiting import Pending, until
from hermesops.errors import HermesError
from hermesops.localcloud.drivers.interface import DAEMON_PORT
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_SERVER = """
import socket, sys, threading
def serve(host, port, kind):
    held = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    held.bind(socket.getaddrinfo(host, port)[0][4])
    if kind == socket.SOCK_STREAM:
        held.listen(9)
        while True:
            held.accept()[0].close()
    while True:
        data, peer = held.recvfrom(9)
        held.sendto(data, peer)
for each in sys.argv[1:]:
    host, _, port = each.rpartition("|")
    kind = socket.SOCK_DGRAM if port == "53" else socket.SOCK_STREAM
    threading.Thread(target=serve, args=(host, int(port), kind)).start()
"""
_VISIT = """
import json, socket, sys
def visit(host, port):
    kind = socket.SOCK_DGRAM if port == 53 else socket.SOCK_STREAM
    visitor = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, kind)
    visitor.settimeout(5)
    try:
        visitor.connect(socket.getaddrinfo(host, port)[0][4])
        if kind == socket.SOCK_DGRAM:
            visitor.send(b"?")
            visitor.recv(9)
        return "reached"
    except OSError as error:
        return type(error).__name__
print(json.dumps([visit(host, int(port)) for host, _, port in (each.rpartition("|") for each in sys.argv[1:])]))
"""
_METADATA = ("169.254.169.254|80", "169.254.1.1|1338", "fd00:ec2::254|80", "fe80::7%lo|80")
_LOOPBACK = (f"127.0.0.1|{DAEMON_PORT}", f"::1|{DAEMON_PORT}")
_RESOLVER = "169.254.169.254|53"
_KEPT = ("127.0.0.1|3100", "127.0.0.1|9090", "::1|9095")
"""Where a machine's Loki and Prometheus would listen."""


@pytest.fixture(scope="module")
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    """An agent on a machine that has those addresses itself, with something behind each."""
    async with living_agent(built_image.world, built_image.image_id) as agent:
        await agent.channel.put("/run/server.py", _SERVER.encode())
        await agent.channel.put("/opt/visit.py", _VISIT.encode(), mode=0o644)
        served = shlex.join([*_METADATA, *_LOOPBACK, *_KEPT, _RESOLVER])
        await agent.run(
            "ip addr add 169.254.169.254/32 dev lo && ip addr add 169.254.1.1/32 dev lo && "
            "ip -6 addr add fd00:ec2::254/128 dev lo && ip -6 addr add fe80::7/64 dev lo && "
            f"systemd-run --quiet --unit=stranger python3 /run/server.py {served} && sleep 1"
        )
        yield agent


async def places_of_daemon(agent: Agent, built_image: Made) -> tuple[str, ...]:
    address, _ = built_image.world.driver.daemon_address(agent.machine_id)
    return (f"{address}|{DAEMON_PORT}", *_LOOPBACK, f"0.0.0.0|{DAEMON_PORT}", f"::ffff:127.0.0.1|{DAEMON_PORT}")


async def visits(agent: Agent, user: str, places: tuple[str, ...]) -> dict[str, str]:
    """What a user of the machine finds at each place."""
    answers = await agent.run(f"runuser -u {user} -- python3 /opt/visit.py {shlex.join(places)}", timeout_s=90)
    return dict(zip(places, json.loads(answers), strict=True))


@pytest.mark.parametrize("user", ["hermes", "hermes-backup", "nobody"])
async def test_users_reach_neither_the_daemon_nor_metadata(agent: Agent, built_image: Made, user: str) -> None:
    daemon = await places_of_daemon(agent, built_image)
    answers = await visits(agent, user, (*daemon, *_METADATA))
    assert answers == dict.fromkeys((*daemon, *_METADATA), "ConnectionRefusedError")


async def test_the_agent_does_not_reach_what_the_machine_keeps_of_its_logs(agent: Agent) -> None:
    assert await visits(agent, "hermes", _KEPT) == dict.fromkeys(_KEPT, "ConnectionRefusedError")


async def test_root_reaches_them_all(agent: Agent, built_image: Made) -> None:
    places = (*(await places_of_daemon(agent, built_image)), *_METADATA, *_KEPT, _RESOLVER)
    assert await visits(agent, "root", places) == dict.fromkeys(places, "reached")


async def test_a_resolver_there_still_answers(agent: Agent) -> None:
    assert await visits(agent, "hermes", (_RESOLVER,)) == {_RESOLVER: "reached"}


async def test_the_model_router_and_the_agents_own_api_are_reached(agent: Agent) -> None:
    router = agent.payload.model_base_url.removeprefix("http://").partition("/")[0].replace(":", "|")
    places = (router, "127.0.0.1|8642")
    assert await visits(agent, "hermes", places) == dict.fromkeys(places, "reached")


async def test_the_agents_terminal_is_refused_too(agent: Agent, built_image: Made) -> None:
    """In the gateway's own unit, with its user namespace (PrivateUsers=)."""
    places = (*(await places_of_daemon(agent, built_image)), *_METADATA)
    output = await terminal(agent, f"python3 /opt/visit.py {shlex.join(places)}")
    assert json.loads(output) == ["ConnectionRefusedError"] * len(places)


async def test_the_agents_terminal_sees_nothing_of_the_vendors(agent: Agent) -> None:
    assert "ermission denied" in await terminal(agent, "ls /etc/justavps")
    denied = await agent.run("systemctl show -p IPAddressDeny --value hermes-gateway.service")
    assert "169.254.0.0/16" in denied.split()  # systemd lists them in no order of ours


async def test_the_daemon_answers_after_a_reboot_and_the_rules_are_back(agent: Agent, built_image: Made) -> None:
    before = await agent.run("cat /proc/sys/kernel/random/boot_id")
    await built_image.world.cloud.http.post(f"/api/v1/machines/{agent.machine_id}/reboot")

    async def rebooted() -> bool | Pending[bool]:
        try:
            now = await agent.run("cat /proc/sys/kernel/random/boot_id; systemctl is-system-running --wait")
        except (HermesError, AssertionError) as error:
            return Pending(str(error))
        return Pending("the same boot") if before.strip() in now else True

    await until(rebooted, what="the reboot", timeout_s=60)
    daemon = await places_of_daemon(agent, built_image)
    assert set((await visits(agent, "hermes", daemon)).values()) == {"ConnectionRefusedError"}
    assert (await visits(agent, "root", daemon[:1])) == {daemon[0]: "reached"}


async def terminal(agent: Agent, command: str) -> str:
    """What a command prints that the agent runs in its terminal."""
    body = {"model": "agent", "messages": [{"role": "user", "content": f"RUN: {command}"}]}
    await agent.channel.put("/run/turn.json", json.dumps(body).encode())
    message = await agent.run(
        f"curl -sS -m 80 -H 'Authorization: Bearer {agent.api_server_key}' -H 'Content-Type: application/json' "
        "--data @/run/turn.json http://127.0.0.1:8642/v1/chat/completions",
        timeout_s=90,
    )
    text = json.loads(message)["choices"][0]["message"]["content"].removeprefix("TOOL SAID: ")
    output: str = json.loads(text)["output"]
    return output
