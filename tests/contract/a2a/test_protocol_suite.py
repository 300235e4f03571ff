"""The agent that the A2A project's suite is run against: a scenario of each kind that needs more than an answer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from hermesops.base.network.http import own_client
from tests.support.users.calling import CallingAgent, message
from tests.support.users.protocol_suite import ANSWERS, suite_agent

SESSION = "0123abcd"


@pytest.fixture
async def suite(tmp_path: Path) -> AsyncIterator[CallingAgent]:
    """The suite as a caller: it has no key, and uses an id more than once."""
    async with suite_agent(tmp_path) as url, own_client(base_url=url, timeout=30) as http:
        yield CallingAgent(http, "", key="none")


async def send(suite: CallingAgent, scenario: str, **more: object) -> dict[str, Any]:
    sent = {**message("x"), "messageId": f"tck-{scenario}-{SESSION}", **more}
    result: dict[str, Any] = await suite.result("SendMessage", {"message": sent})
    return result


async def test_the_suite_gets_what_its_scenarios_name(suite: CallingAgent) -> None:
    states = []
    for _ in range(2):
        task = (await send(suite, "input-required"))["task"]
        follow = (await send(suite, "complete-task", taskId=task["id"]))["task"]
        states.append((task["status"]["state"], follow["status"]["state"]))
    assert states == [("TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED")] * 2
    await send(suite, "input-required")
    answered = (await send(suite, "complete-task"))["task"]
    assert answered["artifacts"][0]["parts"][0]["text"] == ANSWERS["complete-task"]
    assert "message" in await send(suite, "message-response")
