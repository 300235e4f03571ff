"""20 checks on 10 machines: in one batch each, and one by one as testinfra does it, in the same run."""

import asyncio
import hashlib
import os
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack
from typing import Any

import pytest

from hermesops.model.check import Verdict
from hermesops.verify.promise import Expected
from hermesops.verify.promises import QUICK
from hermesops.verify.verification import Verification, verify, verify_one_by_one
from tests.support.agents import Agent, agent_image, agents_world, living_agent
from tests.support.prerequisites import require

pytestmark = pytest.mark.machines

MACHINES = 10
CHECKS = 20
TARGET_S = 1.5


@pytest.fixture(scope="module")
async def agents() -> AsyncIterator[list[Agent]]:
    require(os.geteuid() == 0, "root")
    async with AsyncExitStack() as stack:
        world = await stack.enter_async_context(agents_world())
        image_id = await agent_image(world)
        yield [await stack.enter_async_context(living_agent(world, image_id)) for _ in range(MACHINES)]


async def timed(
    agents: list[Agent], way: Callable[..., Coroutine[Any, Any, Verification]]
) -> tuple[float, list[Verification]]:
    started = time.monotonic()
    promises = QUICK[:CHECKS]
    seen = await asyncio.gather(
        *(
            way(
                agent.channel,
                Expected(agent.instance_id, 1, hashlib.sha256(agent.api_server_key.encode()).hexdigest()),
                promises,
            )
            for agent in agents
        )
    )
    return time.monotonic() - started, list(seen)


def verdicts(seen: Verification) -> list[tuple[str, Verdict]]:
    return [(check.name, check.verdict) for check in seen.checks]


async def test_verify(agents: list[Agent], capsys: pytest.CaptureFixture[str]) -> None:
    await timed(agents, verify)  # the first look warms the machines' page caches
    quickest = min([await timed(agents, verify) for _ in range(5)], key=lambda run: run[0])
    single = await timed(agents, verify_one_by_one)
    with capsys.disabled():
        print(  # noqa: T201 - a benchmark's result
            f"\nverify, {CHECKS} checks on {MACHINES} machines: {quickest[0]:.2f} s (target {TARGET_S} s); "
            f"testinfra one by one, all machines at once: {single[0]:.2f} s, {single[0] / quickest[0]:.0f}x; "
            f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
    assert [verdicts(seen) for seen in quickest[1]] == [verdicts(seen) for seen in single[1]]
    assert all(seen.is_ok for seen in quickest[1])
