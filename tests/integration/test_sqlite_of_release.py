"""A real agent on a booted machine uses the SQLite of its release; what it starts uses the distribution's.

No reader of ours replaces the log of a database that its gateway writes.
"""

import asyncio
import json
import secrets
import shlex
from collections.abc import AsyncIterator
from typing import Any

import pytest

from hermesops.machines.release.sqlite import version_of
from hermesops.machines.verify.checks.agent import AGENT_PROMISES
from hermesops.machines.verify.checks.promise import Expected
from hermesops.machines.verify.verification import verify
from hermesops.observability.runbook.fault import OnMachine
from hermesops.observability.runbook.faults import fault
from hermesops.wire.protocol import PROGRAM
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_REPOSITORY = "/srv/backups"
_PASSWORD = secrets.token_hex(16)
_ASK = """
import http.client, json, sys
connection = http.client.HTTPConnection("127.0.0.1", 8642, timeout=120)
headers = {"Authorization": "Bearer " + sys.argv[1], "Content-Type": "application/json"}
body = {"model": "agent", "messages": [{"role": "user", "content": sys.argv[2]}]}
connection.request("POST", "/v1/chat/completions", body=json.dumps(body), headers=headers)
print(json.loads(connection.getresponse().read())["choices"][0]["message"]["content"])
"""
_SHOWS = """
import os, sqlite3
print(sqlite3.sqlite_version, sorted(name for name, value in os.environ.items() if name[:2] == "LD" and value))
"""
_ANSWERS = "timeout 90 sh -c 'until curl -fs http://127.0.0.1:8642/health; do sleep 0.2; done'"
_ONE_LOG = """
pid=$(systemctl show -P MainPID hermes-gateway.service)
path=$(stat -c %i /var/lib/hermes/state.db-wal)
held=$(for fd in /proc/$pid/fd/*; do
  [ "$(readlink $fd)" = /var/lib/hermes/state.db-wal ] && stat -Lc %i $fd; done | sort -u)
deleted=$(ls -l /proc/$pid/fd | grep -c 'state.db.*(deleted)' || true)
echo "$path $held $deleted"
"""


@pytest.fixture(scope="module")
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        await agent.run(f"install -d -o hermes-backup -g hermes-backup -m 0700 {_REPOSITORY}")
        yield agent


async def _node(agent: Agent, command: str) -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(await agent.run(f"{PROGRAM} {command}", timeout_s=150))
    return answer


async def _ask(agent: Agent, text: str) -> str:
    return await agent.run(f"python3 -c {shlex.quote(_ASK)} {agent.api_server_key} {shlex.quote(text)}", timeout_s=120)


async def _backup(agent: Agent) -> dict[str, Any]:
    payload = {"version": 1, "repository": _REPOSITORY, "password": _PASSWORD, "tags": ["manual"]}
    await agent.channel.put("/run/hermes-node/repository.json", json.dumps(payload).encode(), mode=0o600)
    return await _node(agent, "backup /run/hermes-node/repository.json")


async def _writes_its_own_log(agent: Agent) -> None:
    path, held, deleted = (await agent.run(_ONE_LOG)).split()
    assert path == held, "the gateway writes a log that is not the path's"
    assert deleted == "0"


async def test_gateway_and_hermes_node_use_the_releases_sqlite(built_image: Made, agent: Agent) -> None:
    version = version_of(built_image.release.site)
    assert version
    await _ask(agent, "hello")
    shown = await _node(agent, "sqlite")
    slot = f"/opt/hermes/releases/{built_image.release.id}/venv/lib/"
    assert (shown["version"], shown["node"]) == (version, version)
    assert shown["path"].startswith(slot)
    maps = await agent.run(f"grep -o '/.*sqlite3.*so.*' /proc/{shown['pid']}/maps | sort -u")
    assert [line for line in maps.splitlines() if "libsqlite3" in line] == [shown["path"]]


async def test_programs_that_the_agent_starts_use_the_distributions(agent: Agent) -> None:
    await agent.channel.put("/opt/shows.py", _SHOWS.encode(), mode=0o644)
    ours = await agent.run("/usr/bin/python3 /opt/shows.py")
    answer = await _ask(agent, "RUN: /usr/bin/python3 /opt/shows.py")
    assert ours.strip() in json.loads(answer.removeprefix("TOOL SAID: "))["output"]
    assert ours.endswith("[]")


async def test_verification_names_the_version(agent: Agent) -> None:
    promise = next(promise for promise in AGENT_PROMISES if promise.name == "sqlite")
    verification = await verify(agent.channel, Expected(agent.instance_id, 1), (promise,))
    assert [check.verdict.holds for check in verification.checks] == [True], verification.checks


async def test_backup_digest_and_check_leave_the_gateways_log_alone_also_when_it_is_killed(agent: Agent) -> None:
    await _ask(agent, "one")
    await _writes_its_own_log(agent)
    copied, state = await _backup(agent), await _node(agent, "state")
    assert copied["state"] == state["state"]
    assert copied["left_out"] == 0
    assert (await _node(agent, "databases"))["intact"]["state.db"] is True
    await _writes_its_own_log(agent)
    before = state["state"]["messages"]["count"]

    readers = asyncio.gather(*(_node(agent, words) for words in ("state", "databases", "state")), _backup(agent))
    await agent.run("systemctl kill -s KILL hermes-gateway.service")
    await readers
    await agent.run(_ANSWERS, timeout_s=99)
    await _ask(agent, "two")
    await _writes_its_own_log(agent)
    after = await _node(agent, "state")
    assert after["state"]["messages"]["count"] >= before + 2
    assert (await _node(agent, "databases"))["intact"]["state.db"] is True


async def test_a_damaged_database_is_counted_by_the_agents_own_word(agent: Agent) -> None:
    damage = fault("database-malformed")
    for act in damage.inject:
        if isinstance(act, OnMachine):
            await agent.run(act.script, timeout_s=150)
        else:
            await agent.run(_ANSWERS, timeout_s=99)
            await agent.run("hermes-node metrics")
            await _ask(agent, "hello")
    log = await agent.run("cat /var/lib/hermes/logs/errors.log")
    assert "malformed" in log
    metric = await agent.run("grep ^hermes_database_malformed_total /run/hermes-metrics/*.prom")
    assert int(metric.split()[-1]) >= 1, log[-3000:]
