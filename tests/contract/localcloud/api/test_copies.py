"""Images and backups are copies of a disk: one that is deleted while it is taken leaves nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.support.fakes.machines.driver import PretendDriver
from tests.support.worlds.local.local_server import LocalCloud

Taken = Callable[[LocalCloud, Any], Awaitable[str]]
"""Begins a copy of a machine and says where it is."""


async def image(cloud: LocalCloud, machine: Any) -> str:  # noqa: ANN401 - JSON has no narrower type
    answer = await cloud.http.post(f"/api/v1/machines/{machine['id']}/image", json={"name": "x"})
    return f"/api/v1/images/{answer.json()['id']}"


async def backup(cloud: LocalCloud, machine: Any) -> str:  # noqa: ANN401 - as above
    path = f"/api/v1/machines/{machine['id']}/backups"
    return f"{path}/{(await cloud.http.post(path)).json()['backup_id']}"


@pytest.mark.parametrize("taken", [image, backup], ids=lambda taken: taken.__name__)
async def test_one_deleted_while_it_is_taken_leaves_no_copy(
    cloud: LocalCloud, driver: PretendDriver, taken: Taken
) -> None:
    machine = await cloud.ready(enable_backups=True)
    driver.image_gate = asyncio.Event()
    path = await taken(cloud, machine)
    await driver.until_called("save_image")
    deleting = asyncio.create_task(cloud.http.delete(path))
    assert (await cloud.http.get("/api/v1/account")).is_success  # the deletion has reached the server by now
    driver.image_gate.set()
    assert (await deleting).status_code == 204
    assert (await cloud.http.delete(path)).status_code == 404
    assert driver.images == set()
