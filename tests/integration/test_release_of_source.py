"""Releases that are built from a tag's archive and bring a Python of their own, on real machines."""

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.instances.remote.releases import ReleaseClient
from hermesops.machines.image.definition import agent_pins
from hermesops.machines.image.packages.download import NEWEST_GLIBC, Pip
from hermesops.machines.release.builder.build import Builder, BuildRequest
from hermesops.machines.release.builder.resolver import Resolver
from hermesops.machines.release.releases import HandedOut
from hermesops.machines.release.requirements import pin_of
from hermesops.machines.release.service import parts_of
from hermesops.model.rollout.release import ReleaseId
from hermesops.wire.documents.lock import Lock
from hermesops.wire.protocol import PROGRAM
from tests.support.images.builds import Made
from tests.support.real.machines.agents import Agent, living_agent
from tests.support.real.machines.machine import base_python
from tests.support.real.sqlite import sqlite_builder
from tests.support.releases import own_python
from tests.support.releases.source_archive import real_agent
from tests.support.suite.kept import shared_cache

pytestmark = [pytest.mark.machines, pytest.mark.turns(90)]

_PROGRAM_OF_GATEWAY = "readlink /proc/$(systemctl show hermes-gateway --property=MainPID --value)/exe"
_LOCALES = "tr '\\0' '\\n' </proc/$(systemctl show hermes-gateway --property=MainPID --value)/environ | grep LOCALES"


@pytest.fixture
async def agent(built_image: Made) -> AsyncIterator[Agent]:
    async with living_agent(built_image.world, built_image.image_id) as agent:
        yield agent


def build(built_image: Made, folder: Path) -> Lock:
    """Build the images' agent from a source archive, with a Python of its own."""
    environ, store = os.environ, built_image.workshop.releases  # noqa: TID251 - pip's own settings, as a user has them
    wheels = built_image.release.pythons[own_python.PYTHON].wheels
    own = next(blob for blob in wheels if pin_of(blob).name == "hermes-agent")
    wheel = folder / own.name
    wheel.write_bytes(store.blob(own))
    shape = real_agent(wheel, [blob for blob in wheels if blob != own], pythons=">=3.11,<3.12")
    pip = Pip(environ, shared_cache() / "packages")
    parts = parts_of(agent_pins("hermes-base"), pip, sqlite_builder())
    builder = Builder(store, Resolver(environ, glibc=NEWEST_GLIBC), pip, parts, folder / "scratch", lambda _: None)
    order = BuildRequest(
        archive=shape.packed(folder / "v2026.9.24.tar.gz"),
        interpreter=own_python.own_python_archive(),
        pythons=("3.11", "3.12", "3.13"),
    )
    return builder.build(order, who="test", note="", at=datetime.now(UTC)).lock


async def node(agent: Agent, words: str) -> dict[str, Any]:
    done = await agent.channel.run(f"{PROGRAM} {words}", timeout_s=900)
    assert done.exit_code == 0, done.text + done.stderr.decode()
    answer: dict[str, Any] = json.loads(done.text.splitlines()[-1])
    return answer


async def test_a_machine_goes_over_to_a_release_with_its_own_python_and_back(
    built_image: Made, agent: Agent, tmp_path: Path
) -> None:
    started = time.monotonic()
    lock = await asyncio.to_thread(build, built_image, tmp_path)
    print(f"built in {time.monotonic() - started:.1f} s")  # noqa: T201 - a figure for a person
    assert (lock.origin, list(lock.pythons)) == ("source", [own_python.PYTHON])
    first = built_image.release.id
    before = await agent.run(_PROGRAM_OF_GATEWAY)
    bundle, started = HandedOut(ReleaseId(lock.id), built_image.workshop.releases), time.monotonic()
    await ReleaseClient(built_image.world.channel).install(agent.machine_id, bundle, python=base_python())
    print(f"installed in {time.monotonic() - started:.1f} s")  # noqa: T201 - as above
    answer = await node(agent, f"release activate {lock.id}")
    print(f"activated in {answer['seconds']} s, trial {answer['trial_s']} s")  # noqa: T201 - as above
    assert all(check["ok"] for check in answer["checks"])
    slot = f"/opt/hermes/releases/{lock.id}"
    assert await agent.run(_PROGRAM_OF_GATEWAY) == f"{slot}/python/bin/python3.11"
    assert await agent.run(_LOCALES) == "HERMES_BUNDLED_LOCALES=/opt/hermes/current/resources/locales"
    assert await agent.run("ls /opt/hermes/current/resources/locales | grep -c yaml") != "0"
    await node(agent, f"release confirm {lock.id}")
    assert (await node(agent, "release check"))["ok"]

    assert (await node(agent, "release rollback"))["release"] == first
    assert await agent.run(_PROGRAM_OF_GATEWAY) == before
    assert (await node(agent, "health"))["ok"]
