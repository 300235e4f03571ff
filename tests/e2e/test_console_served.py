"""The served console of a simulated world: an operator's restart is previewed and opened by a worker, in their name."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.model.operation import LeaseHeldError, OperationStatus
from tests.support.pages.console import container_of
from tests.support.pages.operators import CHANGE, ServedConsole, served_console, settings_of
from tests.support.real.commands.command import Command, local_world

pytestmark = pytest.mark.turns(40)


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("served"), driver="sim") as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture
async def console(world: Command, tmp_path: Path) -> AsyncIterator[ServedConsole]:
    """The served console, whose environment has no key, over the world's registry."""
    url = f"sqlite:///{container_of(world.environ).registry_place.file}"
    async with served_console(url, tmp_path / "console") as console:
        yield console


@pytest.fixture
async def worker(world: Command, console: ServedConsole) -> AsyncIterator[Container]:
    """The world's container, which carries out requests and runs their operations, as workers do."""
    container = container_of({**world.environ, **_console_settings(console)})

    async def work() -> None:
        async with container.connect() as connected:
            while True:
                await connected.operator_request_carrier.run()
                for operation in container.operation_directory.list():
                    with suppress(LeaseHeldError):  # a command runs it
                        await connected.operations.run(operation)
                await pause(0.1)

    working = asyncio.ensure_future(work())
    try:
        yield container
    finally:
        await cancel(working)


def _console_settings(console: ServedConsole) -> dict[str, str]:
    settings = settings_of(console.issuer.url, "", Path("/"))
    return {name: value for name, value in settings.items() if name.startswith("HERMESOPS_CONSOLE_")}


async def test_a_worker_carries_out_a_restart_for_the_operator(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    otto = await console.signed_in("otto")
    dry = (await world.ok("instance", "restart", "ada", "--dry-run", "--json")).json
    path = f"/console/instances/{worker.instances.find('ada').id}/change/restart"
    preview = await otto.get(path)
    assert re.findall(r"<li>(.*?) <span", preview.text) == [step["step"] for step in dry["steps"]] != []
    assert "hermesops --env local instance restart ada --reason WHY" in preview.text

    answer = await otto.post(path, data={"reason": "a test"}, headers=CHANGE)
    assert answer.status_code == 200, answer.text
    operation_id = answer.headers["hx-redirect"].rpartition("/")[2]

    async def look() -> OperationStatus | Pending[OperationStatus]:
        status = worker.operation_directory.get(operation_id).status
        return status if status.has_ended else Pending(status.value)

    assert await until(look, what=operation_id, timeout_s=60, every_s=0.1) is OperationStatus.DONE
    history = worker.operation_directory.history(operation_id)
    who = "otto@local.test@oidc:console.test via console"
    assert [entry.who for entry in history.audit if entry.action == "operation_opened"] == [who]
    assert who in (await otto.get(answer.headers["hx-redirect"])).text


async def test_a_refusal_is_the_commands(world: Command, console: ServedConsole, worker: Container) -> None:
    await world.ok("provision", "bob", "--plan", "light")
    await world.ok("instance", "suspend", "bob", "--reason", "a test")
    refused = (await world.run("instance", "restart", "bob", "--dry-run")).stderr
    message = refused.partition("error: ")[2].partition("\n")[0]
    assert message
    otto = await console.signed_in("otto")
    path = f"/console/instances/{worker.instances.find('bob').id}/change/restart"
    page = await otto.get(path)
    assert message in page.text, page.text[-700:]
    assert '<form class="change"' not in page.text
    answer = await otto.post(path, data={"reason": "a test"}, headers=CHANGE)
    assert (answer.status_code, message in answer.text) == (409, True)
