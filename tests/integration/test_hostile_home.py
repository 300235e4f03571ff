"""A real agent's home full of whatever its user can make, and an agent that stops what it can reach."""

import json
import time
from collections.abc import AsyncIterator

import pytest

from hermesops.node.protocol import PROGRAM
from tests.support.agents import Agent, living_agent
from tests.support.hostile_home import plant
from tests.support.image_workshop import Made

pytestmark = pytest.mark.machines

_WITHIN_S = 60.0
_STOPS = """
import os, signal, time
while True:
    try:
        os.kill(-1, signal.SIGSTOP)
    except OSError:
        pass
    time.sleep(0.02)
"""
_REPOSITORY = "/var/lib/kept"


@pytest.fixture
async def agent(made: Made) -> AsyncIterator[Agent]:
    async with living_agent(made.world, made.image_id) as agent:
        await agent.run(f"install -d -o hermes-backup {_REPOSITORY}")
        yield agent


async def node(agent: Agent, words: str, *, within_s: float = _WITHIN_S) -> tuple[int, str]:
    """One command of hermes-node's: its exit code, and what it said."""
    started = time.monotonic()
    done = await agent.channel.run(f"{PROGRAM} {words}", timeout_s=within_s)
    assert time.monotonic() - started < within_s
    assert "Traceback" not in done.text + done.stderr.decode(), done.stderr.decode()
    return done.exit_code, done.text + done.stderr.decode()


async def backup(agent: Agent) -> tuple[int, str]:
    payload = {"version": 1, "repository": _REPOSITORY, "password": "p" * 32, "tags": ["test"]}
    await agent.channel.put("/run/backup.json", json.dumps(payload).encode(), mode=0o600)
    return await node(agent, "backup /run/backup.json")


async def test_every_command_ends_on_a_home_full_of_traps(agent: Agent) -> None:
    await agent.channel.put("/opt/plant.py", plant(entries=20_000).encode(), mode=0o644)
    await agent.run("runuser -u hermes -- python3 /opt/plant.py /var/lib/hermes", timeout_s=120)
    await agent.run(
        "systemd-run --quiet --unit=writer --uid=hermes sh -c 'while :; do date >> /var/lib/hermes/memories/now; done'"
    )
    code, said = await backup(agent)
    assert code == 0, said
    assert json.loads(said)["left_out"] > 0
    for words in (
        "status",
        "health",
        "state",
        "export | tail -1",
        "probe",
        "drain --deadline 5",
        "undrain",
        "configure",
    ):
        code, said = await node(agent, words)
        assert code == 0, f"{words}: {said}"
    assert json.loads((await node(agent, "export | tail -1"))[1])["table"] == "end"
    await agent.personalise()
    for words in ("fence", "state", "unfence", "release check", "release show", "release gc"):
        code, said = await node(agent, words)
        assert code in {0, 8}, f"{words}: {said}"


async def test_stopping_everything_ends_a_backup_at_once_and_says_why(agent: Agent) -> None:
    await agent.channel.put("/opt/stops.py", _STOPS.encode(), mode=0o644)
    await agent.run("systemd-run --quiet --unit=stops --uid=hermes python3 /opt/stops.py")
    for command in (backup(agent), node(agent, "state"), node(agent, "export")):
        code, said = await command
        assert code == 4, said
        assert "stopped by a signal of the agent's user" in said
    # hermes-node itself answers, and the gateway can be taken from it.
    assert (await node(agent, "status"))[0] == 0
    assert (await node(agent, "fence", within_s=120))[0] == 0
    await agent.run("systemctl kill --signal=KILL stops")
    assert (await node(agent, "unfence"))[0] == 0
    code, said = await backup(agent)
    assert code == 0, said
