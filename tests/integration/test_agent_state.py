"""An agent's state on a booted machine with the real agent: copied, wrecked, restored, drained, fenced."""

import asyncio
import json
import secrets
import shlex
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import pytest

from hermesops.wire.protocol import PROGRAM
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_SAID = "the heron lands at seven"
_REPOSITORY = "/srv/backups"
_PASSWORD = secrets.token_hex(16)

_ASK = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=120)
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
body = {"model": "agent", "stream": True, "messages": [{"role": "user", "content": sys.argv[2]}]}
connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
response = connection.getresponse()
print(response.status, response.read().decode())
"""


@pytest.fixture(scope="module")
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        await agent.run(f"install -d -o hermes-backup -g hermes-backup -m 0700 {_REPOSITORY}")
        yield agent


async def _node(agent: Agent, command: str, *, code: int = 0) -> dict[str, Any]:
    done = await agent.channel.run(f"{PROGRAM} {command}", timeout_s=150)
    assert done.exit_code == code, f"{command}: {done.text} {done.stderr.decode()}"
    answer: dict[str, Any] = json.loads(done.text)
    return answer


async def _with_repository(agent: Agent, command: str, **fields: object) -> dict[str, Any]:
    payload = {"version": 1, "repository": _REPOSITORY, "password": _PASSWORD, "tags": ["manual"], **fields}
    path = "/run/hermes-node/repository.json"
    await agent.channel.put(path, json.dumps(payload).encode(), mode=0o600)
    return await _node(agent, f"{command} {path}")


async def _ask(agent: Agent, text: str) -> str:
    return await agent.run(f"python3 -c {shlex.quote(_ASK)} {agent.api_server_key} '{text}'", timeout_s=120)


async def test_an_agent_remembers_what_was_backed_up_whatever_came_between(agent: Agent) -> None:
    await _ask(agent, _SAID)
    await agent.run("su -s /bin/sh hermes -c 'echo \"Likes herons.\" > /var/lib/hermes/memories/USER.md'")
    report = await _with_repository(agent, "backup")
    before = report["state"]
    assert before == (await _node(agent, "state"))["state"]
    assert before["messages"]["count"] >= 2
    assert report["left_out"] == 0

    await _node(agent, "fence")
    wreck = "cd /var/lib/hermes && rm -rf memories state.db* && echo x > skills/x"
    await agent.run(f"su -s /bin/sh hermes -c '{wreck}'")
    restored = await _with_repository(agent, "restore", snapshot=report["snapshot"])
    assert restored["state"] == before
    assert (await _node(agent, "state"))["state"] == before
    assert (await agent.run("find /var/lib/hermes ! -user hermes")) == ""
    assert (await agent.run("ls -A /run/hermes-node /var/lib/hermes/.hermes-node")).split() == [
        "/run/hermes-node:",
        "lock",
        "state-replaced.json",
        "/var/lib/hermes/.hermes-node:",
        "former",
    ]

    again = replace(agent.payload, identity=replace(agent.payload.identity, epoch=2))
    await agent.personalise(again)
    assert (await _node(agent, "state"))["state"] == before
    exported = (await agent.run(f"{PROGRAM} export")).splitlines()
    rows = [json.loads(line) for line in exported]
    assert any(row.get("content") == _SAID for row in rows)
    assert rows[-1]["counts"]["conversations"] == before["messages"]["count"]
    assert sum(row["table"] == "conversations" for row in rows) == before["messages"]["count"]


async def test_what_the_user_said_is_in_the_clear_in_no_backup_and_no_log(agent: Agent) -> None:
    output = await agent.run(
        f"grep -rl '{_SAID}' {_REPOSITORY} /var/log /run /tmp /var/tmp /etc || true; "
        f"journalctl --no-pager | grep -c '{_SAID}' || true"
    )
    assert output.split() == ["0"]


async def test_the_agents_user_reads_no_repository_and_no_secret_of_it(agent: Agent) -> None:
    output = await agent.run(
        f"su -s /bin/sh hermes -c 'cat {_REPOSITORY}/config; ls /etc/hermes-node /run/hermes-node' 2>&1 || true"
    )
    assert output.count("Permission denied") == 3


async def _asked_while_draining(agent: Agent, text: str) -> asyncio.Task[str]:
    """Ask, and begin a drain once the agent is at it; a question that comes too late is refused and asked again."""
    while True:
        task = asyncio.create_task(_ask(agent, text))
        connected = "until ss -Htn state established sport = :8642 | grep -q .; do sleep 0.1; done"
        await agent.run(f"timeout 60 sh -c '{connected}'", timeout_s=70)
        done = await agent.channel.run(f"{PROGRAM} drain --deadline 0", timeout_s=60)
        if done.exit_code == 7 and json.loads(done.text)["busy"]["runs"]:
            return task
        await _node(agent, "undrain")
        await task


async def test_an_answer_under_way_arrives_whole_across_a_drain(agent: Agent) -> None:
    task = await _asked_while_draining(agent, "SLEEP 20")
    assert (await _node(agent, "status"))["draining"]
    assert "gateway_draining" in await _ask(agent, "hello")
    drained = await _node(agent, "drain --deadline 60")
    answer = await task
    assert drained["drained"]
    assert answer.startswith("200")
    assert "SLEPT" in answer
    assert "[DONE]" in answer
    assert (await _node(agent, "undrain")) == {"drained": False}


async def test_a_fenced_gateway_starts_by_no_hand_and_no_boot(agent: Agent) -> None:
    await _node(agent, "fence")
    await agent.run("systemctl start hermes-gateway.service; systemctl restart hermes-gateway.service")
    assert "inactive" in await agent.run("systemctl show -P ActiveState hermes-gateway.service")
    same = replace(agent.payload, identity=replace(agent.payload.identity, epoch=2))
    await agent.channel.put("/run/hermes-payload.json", same.to_json(), mode=0o600)
    assert "fenced" in (await _node(agent, "personalise /run/hermes-payload.json", code=3))["error"]
    assert (await _node(agent, "configure"))["gateway"] == "fenced"
    await _node(agent, "unfence")
    assert (await _node(agent, "configure"))["healthy"]
