"""A user's second message while the agent works on the first: it waits, and the first is answered whole.

The real gateway has a messenger behind a connector on its own machine. The agent's own default is tried beside ours.
"""

import inspect
import json
from collections.abc import AsyncIterator

import pytest

from hermesops.base.waiting import Pending, until
from tests.support.images.builds import Made
from tests.support.real.machines import relay_connector
from tests.support.real.machines.agents import Agent, living_agent

pytestmark = [pytest.mark.machines, pytest.mark.turns(60)]

_PORT = 9701
_LOG = "/run/relay.log"
_GATEWAY = "hermes-gateway.service"
_ENVIRONMENT = f"""GATEWAY_RELAY_URL=http://127.0.0.1:{_PORT}
GATEWAY_RELAY_ID=test
GATEWAY_RELAY_SECRET={"5" * 64}
GATEWAY_RELAY_PLATFORMS=relay
GATEWAY_ALLOW_ALL_USERS=true
"""
_FIRST, _SECOND = "RUN: sleep 12; echo $((6 * 7))x", "second"
_RESULT = "42x"
"""Of the work that the first one asks for."""


@pytest.fixture
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        await agent.channel.put("/opt/connector.py", inspect.getsource(relay_connector).encode(), mode=0o644)
        await agent.channel.put("/var/lib/hermes/.env", _ENVIRONMENT.encode(), mode=0o600)
        await agent.run("chown hermes:hermes /var/lib/hermes/.env")
        yield agent


async def _answers(agent: Agent, *, until_has: str) -> list[str]:
    """Restart the gateway, send it both messages, and read the texts that it sends until one has ``until_has``."""
    await agent.run(f"systemctl stop {_GATEWAY} connector 2>/dev/null; rm -f {_LOG}", timeout_s=120)
    python = "/opt/hermes/current/venv/bin/python"
    words = f"{python} /opt/connector.py {_PORT} {_LOG} 2 '{_FIRST}' 3 '{_SECOND}'"
    await agent.run(
        f"systemd-run --quiet --collect --unit=connector {words}; systemctl start {_GATEWAY}", timeout_s=120
    )

    async def texts() -> list[str] | Pending[list[str]]:
        log = await agent.run(f"cat {_LOG} || true")
        frames = [json.loads(line) for line in log.splitlines()]
        actions = [frame["action"] for frame in frames if frame["type"] == "outbound"]
        sent = [str(action.get("content", action.get("text", ""))) for action in actions if action["op"] == "send"]
        return sent if any(until_has in text for text in sent) else Pending(log[-800:])

    return await until(texts, what=f"the answer {until_has!r}", timeout_s=120, every_s=0.5)


async def test_the_first_message_is_answered_whole_and_then_the_second(agent: Agent) -> None:
    config = await agent.run("cat /etc/hermes/config.yaml")
    assert "busy_input_mode: queue" in config or '"busy_input_mode": "queue"' in config
    ours = await _answers(agent, until_has=f"YOU SAID: {_SECOND}")
    assert _RESULT in ours[-2], ours
    assert ours[-1] == f"YOU SAID: {_SECOND}"
    assert not any("nterrupt" in text for text in ours), ours

    # The agent's own default says that it interrupts the work, and tells the user about its commands.
    await agent.run("sed -i 's/queue/interrupt/' /etc/hermes/config.yaml")
    theirs = await _answers(agent, until_has=f"YOU SAID: {_SECOND}")
    assert any("nterrupt" in text for text in theirs), theirs
