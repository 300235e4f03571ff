"""The served console of a simulated world: an operator's restart is previewed and opened by a worker, in their name."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from contextlib import suppress
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, cancel, pause, until
from hermesops.model.operation import LeaseHeldError, OperationStatus
from hermesops.model.rollout.records import RolloutId, RolloutState
from tests.support.pages.console import container_of
from tests.support.pages.operators import CHANGE, ServedConsole, served_console, settings_of
from tests.support.real.commands.command import Command, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import told, vendor_of

pytestmark = pytest.mark.turns(110)


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


async def test_previews_of_other_changes_are_those_of_dry_runs(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    adele = await console.signed_in("adele")
    path = f"/console/instances/{worker.instances.find('ada').id}/change"
    for name, values, words in (
        ("suspend", {}, ("instance", "suspend", "ada")),
        ("resize", {"plan": "heavy"}, ("instance", "resize", "ada", "--plan", "heavy")),
        ("move", {"region": "nbg1"}, ("instance", "move", "ada", "--region", "nbg1")),
        ("terminate", {}, ("instance", "terminate", "ada")),
    ):
        dry = (await world.ok(*words, "--dry-run", "--json")).json
        page = (await adele.get(f"{path}/{name}", params=values)).text
        assert re.findall(r"<li>(.*?) <span", page) == [step["step"] for step in dry["steps"]] != [], name


async def test_a_rollout_is_started_and_rolled_back_by_a_worker_for_the_operator(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    release = await built(world, "good")
    values = {"release": release, "everybody": "on", "soak": "1s", "settle": "1s", "vitals": "none"}
    options = ("--all", "--soak", "1s", "--settle", "1s", "--vitals", "none")
    dry = (await world.ok("rollout", "start", release, *options, "--dry-run", "--json")).json["preview"]
    otto = await console.signed_in("otto")
    page = (await otto.get("/console/change/start-rollout", params=values)).text
    assert f"{release} to {dry['targets']} agents" in page, page[-700:]
    assert all(user in page for user in dry["canaries"])
    assert f"hermesops --env local rollout start {release} --all" in page
    rollout = await _given(otto, "/console/change/start-rollout", values)
    rollout_id = rollout.rpartition("/")[2]
    await _came(worker, rollout_id, RolloutState.DONE)
    who = "otto@local.test@oidc:console.test"
    assert worker.rollouts.start(RolloutId(rollout_id)).who == who

    words = ("rollback", "--rollout", rollout_id)
    dry = (await world.ok(*words, "--dry-run", "--json")).json["agents"]
    page = (await otto.get(f"{rollout}/change/roll-back")).text
    assert all(f"{agent['user']} to {agent['release']}" in page for agent in dry), page[-700:]
    await _given(otto, f"{rollout}/change/roll-back", {"typed": rollout_id})
    await _came(worker, rollout_id, RolloutState.ROLLED_BACK)
    history = (await world.ok("rollout", "history", rollout_id, "--json")).json["changes"]
    assert [row["what"] for row in history if row["who"] == who] == ["start", "roll_back"]


async def test_the_job_of_the_command_line_begins_actions_of_the_consoles_table(
    world: Command, console: ServedConsole
) -> None:
    otto = await console.signed_in("otto")
    freezing = asyncio.ensure_future(_given(otto, "/console/change/freeze", {"until": "12h"}))
    requests = container_of(world.environ).registry.operator_requests

    async def look() -> bool | Pending[bool]:
        return True if requests.due() else Pending("no request yet")

    await until(look, what="the request", timeout_s=30, every_s=0.05)
    await world.with_variables(**_console_settings(console)).ok("job", "run", "operator-requests")
    assert await freezing == "/console/rollouts"
    [freeze] = (await world.ok("rollout", "freezes", "--json")).json["freezes"]
    assert freeze["who"] == "otto@local.test@oidc:console.test"
    await world.ok("rollout", "unfreeze", freeze["id"])


async def _given(client: httpx.AsyncClient, path: str, values: Mapping[str, str]) -> str:
    """Send the form of an action; the page of what has begun."""
    answer = await client.post(path, data={**values, "reason": "a test"}, headers=CHANGE)
    assert answer.status_code == 200, answer.text
    return answer.headers["hx-redirect"]


async def _came(worker: Container, rollout_id: str, state: RolloutState) -> None:
    async def look() -> RolloutState | Pending[RolloutState]:
        row = worker.rollouts.get(RolloutId(rollout_id))
        return row.state if row.state is state else Pending(f"{row.state}: {row.reason}")

    await until(look, what=f"{rollout_id} is {state}", timeout_s=120, every_s=0.1)


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


async def test_pages_for_which_workers_ask_show_what_the_commands_show(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    otto, adele = await console.signed_in("otto"), await console.signed_in("adele")
    changes, cost, jobs = [(await otto.get(f"/console/{name}/answer")).text for name in ("changes", "cost", "jobs")]
    happened = (await world.ok("fleet", "changes", "--json")).json["changes"]
    assert all(row["subject"] in changes for row in happened[-10:]), changes[-700:]
    assert "Unknown:" not in cost, cost
    names = [row["job"] for row in (await world.ok("job", "list", "--json")).json["jobs"]]
    assert [name for name in names if name not in jobs] == []
    of_admin = (await adele.get("/console/jobs/answer")).text
    assert 'href="/console/jobs/pools/change/run"' in of_admin
    assert "/change/run" not in jobs, "a run needs an admin"
    stray = f"hermes-local-{worker.instances.find('ada').cell}-{'ab' * 6}"
    async with vendor_of(world.home / "local" / "world") as api:
        listed = await told(api, f"/machines/{worker.instances.find('ada').machine_id}")
        order = {"name": stray, "server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
        machine = (await api.post("/machines", json=order)).raise_for_status().json()
        await told(api, f"/machines/{machine['id']}")
        link = f'href="/console/machines/{stray}/change/remove-orphan"'
        drift = (await adele.get("/console/drift/answer")).text
        assert (stray in drift, link in drift or f"machines/{stray}/change/adopt" in drift) == (True, True), drift
        assert f"hermesops --env local fleet repair remove-orphan {stray}" in drift
        assert f'href="/console/machines/{stray}' not in (await otto.get("/console/drift/answer")).text
        path = f"/console/machines/{stray}/change/remove-orphan"
        assert "is destroyed for good" in (await adele.get(path)).text
        assert await _given(adele, path, {"typed": stray}) == "/console/drift"
        assert (await api.get(f"/machines/{machine['id']}")).status_code == 404


async def test_a_bulk_action_is_previewed_and_opened_for_each_agent_by_a_worker(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    await world.ok("provision", "eve", "--plan", "light")
    otto = await console.signed_in("otto")
    ids = [worker.instances.find(user).id for user in ("ada", "eve")]
    path = f"/console/bulk/back-up?ids={','.join(ids)}"
    preview = (await otto.get(path)).text
    assert preview.count("its checks pass") == len(ids), preview[-700:]
    assert "hermesops --env local backup create eve" in preview
    answer = await otto.post(path, data={"reason": "a test"}, headers=CHANGE)
    assert answer.status_code == 200, answer.text
    opened = parse_qs(urlsplit(answer.headers["hx-redirect"]).query)["of"][0].split(",")
    assert {worker.operation_directory.get(id_).instance_id for id_ in opened} == {*ids}

    async def look() -> str | Pending[str]:
        page = (await otto.get(answer.headers["hx-redirect"])).text
        return page if "2 of 2 done, 0 failed or refused" in page else Pending("not yet")

    await until(look, what="both backups", timeout_s=120, every_s=0.3)
    reasons = {str(worker.operation_directory.get(id_).intent["reason"]) for id_ in opened}
    assert len(reasons) == len(ids)


async def test_a_job_is_run_by_workers_as_an_operation(
    world: Command, console: ServedConsole, worker: Container
) -> None:
    adele = await console.signed_in("adele")
    path = "/console/jobs/backups/change/run"
    preview = (await adele.get(path)).text
    assert "hermesops --env local job run --yes backups" in preview, preview[-700:]
    page = await _given(adele, path, {"typed": "backups"})

    async def look() -> OperationStatus | Pending[OperationStatus]:
        status = worker.operation_directory.get(page.rpartition("/")[2]).status
        return status if status.has_ended else Pending(status.value)

    assert await until(look, what=page, timeout_s=120, every_s=0.2) is OperationStatus.DONE
    job = next(row for row in (await world.ok("job", "list", "--json")).json["jobs"] if row["job"] == "backups")
    assert (bool(job["last"]), job["problem"]) == (True, None), job
    assert "Job run: backups" in (await adele.get(page)).text
