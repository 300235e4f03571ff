"""Actions of the fleet's upkeep by pages, on simulated machines: each has a preview, and does as its command does."""

import html
import re
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx
import pytest

from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.model.operation import OperationStatus
from hermesops.model.rollout.records import RolloutId, RolloutState
from tests.support.pages.console import OWN, console_client, container_of
from tests.support.real.commands.command import Command, local_world
from tests.support.real.commands.operators import two_operators
from tests.support.vendor.outside_changes import stop_behind_its_back, told, vendor_of

pytestmark = pytest.mark.turns(130)

POOLED = {"HERMESOPS_POOL_SIZE": "light=1"}


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("upkeep"), driver="sim", variables=POOLED) as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture
def container(world: Command) -> Container:
    return container_of(world.environ)


@pytest.fixture
async def client(container: Container) -> AsyncIterator[httpx.AsyncClient]:
    async with console_client(container) as client:
        yield client


async def begun(client: httpx.AsyncClient, path: str, typed: str = "", **values: str) -> str:
    """Begin an action after its preview; the page that it leads to."""
    preview = await client.get(path, params=values)
    assert (preview.status_code, "Preview</h2>" in preview.text) == (200, True), preview.text
    answer = await client.post(path, data={**values, "reason": "a test", "typed": typed}, headers=OWN)
    assert answer.status_code == 200, answer.text
    return answer.headers["hx-redirect"]


async def test_a_job_fills_a_pool_and_the_pool_is_drained(
    world: Command, container: Container, client: httpx.AsyncClient
) -> None:
    jobs = (await client.get("/console/jobs/answer")).text
    assert 'href="/console/jobs/pools/change/run"' in jobs
    wrong = await client.post("/console/jobs/pools/change/run", data={"reason": "x", "typed": "pool"}, headers=OWN)
    assert wrong.status_code == 422
    running = await begun(client, "/console/jobs/pools/change/run", "pools")
    assert await ended(container, running) is OperationStatus.DONE
    assert "Job run: pools" in (await client.get(running)).text

    async def pooled() -> list[object] | Pending[list[object]]:
        machines = (await world.ok("pool", "list", "--json")).json["machines"]
        return machines if machines and machines[0]["status"] == "ready" else Pending("not yet")

    [machine] = await until(pooled, what="a machine in the pool", timeout_s=120, every_s=0.3)
    assert isinstance(machine, dict)
    cell = f"/console/cells/{machine['cell']}"
    assert f'href="{cell}/change/drain-pool"' in (await client.get(cell)).text
    assert machine["machine_name"] in (await client.get(f"{cell}/change/drain-pool")).text
    page = await begun(client, f"{cell}/change/drain-pool", machine["cell"])
    assert await ended(container, page) is OperationStatus.DONE
    assert (await world.ok("pool", "list", "--json")).json["machines"] == []
    entries = (await world.ok("audit", "log", "--json")).json["entries"]
    assert [entry["who"].endswith("via console") for entry in entries if entry["why"] == "a test"] != []


async def test_tokens_are_rotated_as_a_rollout(container: Container, client: httpx.AsyncClient) -> None:
    page = await begun(client, "/console/change/rotate-tokens", everybody="on", stages="100%", soak="0s", settle="0s")
    rollout_id = RolloutId(page.rpartition("/")[2])

    async def look() -> RolloutState | Pending[RolloutState]:
        state = container.rollouts.get(rollout_id).state
        return state if state.has_ended else Pending(state.value)

    assert await until(look, what=rollout_id, timeout_s=240, every_s=0.5) is RolloutState.DONE
    assert container.rollouts.get(rollout_id).action.value == "tokens"


async def test_what_is_not_so_is_refused_before_it_begins(client: httpx.AsyncClient, container: Container) -> None:
    ada = f"/console/instances/{container.instances.find('ada').id}"
    assert "is a starter at JustAVPS" in (await client.get(f"{ada}/change/accept-size")).text
    for path, words in (
        ("/console/machines/hermes-local-none/change/adopt", "no orphan"),
        ("/console/machines/hermes-local-none/change/remove-orphan", "no orphan"),
        ("/console/jobs/none/change/run", "no job"),
        ("/console/drills/none/change/run", "no drill"),
    ):
        page = (await client.get(path)).text
        assert ("Refused now:" in page, words in page) == (True, True), (path, re.findall(r"Refused now:.*", page))
    assert (await client.get("/console/machines/A%20b/change/adopt")).status_code == 422


async def test_a_fault_is_drilled_on_a_machine_of_the_pool(world: Command, client: httpx.AsyncClient) -> None:
    refused = await client.post(
        "/console/drills/machine-deleted/change/run", data={"typed": "machine-deleted"}, headers=OWN
    )
    page = refused.headers["hx-redirect"]

    async def ran() -> str | Pending[str]:
        text = (await client.get(page)).text
        return text if '<p role="status">runs</p>' not in text else Pending("runs")

    assert "no machine of a warm pool is ready" in await until(ran, what=page, timeout_s=60, every_s=0.3)
    await world.ok("job", "run", "pools")
    page = await begun(client, "/console/drills/machine-deleted/change/run", "machine-deleted")
    text = await until(ran, what=page, timeout_s=240, every_s=0.5)
    assert "done: each step had the expected result" in text, text
    drills = (await world.ok("drill", "list", "--json")).json["drills"]
    assert next(row for row in drills if row["drill"] == "machine-deleted")["found"] == "well"
    assert "drill-machine-deleted" not in (await world.ok("instance", "list", "--json")).stdout


async def ended(container: Container, page: str) -> OperationStatus:
    """The status of the operation of a page, once it has ended."""

    async def look() -> OperationStatus | Pending[OperationStatus]:
        status = container.operation_directory.get(page.rpartition("/")[2]).status
        return status if status.has_ended else Pending(status.value)

    return await until(look, what=page, timeout_s=120, every_s=0.2)


async def test_a_stack_is_run_by_its_cells_page(container: Container, client: httpx.AsyncClient) -> None:
    cell = container.instances.find("ada").cell
    path = f"/console/cells/{cell}/change/up"
    preview = (await client.get(path)).text
    assert ("It would change nothing." in preview, f"hermesops stack up {cell}" in preview) == (True, True)
    assert await ended(container, await begun(client, path)) is OperationStatus.DONE


async def test_a_saved_preview_is_run_with_the_approval_of_another_operator(world: Command, tmp_path: Path) -> None:
    asks, approves = two_operators(world, tmp_path)
    container = container_of(asks.environ)
    preview, approval, path = str(tmp_path / "preview"), str(tmp_path / "approval"), "/console/change/up-saved"
    await asks.ok("stack", "preview", container.instances.find("ada").cell, "--save", preview)
    await approves.ok("approval", "sign", preview, "--save", approval, "--yes")
    (tmp_path / "wrong").write_text("no preview")
    async with console_client(container) as client:
        for name in (str(tmp_path / "wrong"), "/dev/zero", str(tmp_path / "none"), str(tmp_path)):
            assert "Refused now" in (await client.get(path, params={"saved": name})).text, name
        alone = (await client.get(path, params={"saved": preview})).text
        assert "another operator&#39;s approval" in alone
        both = {"saved": preview, "approval": approval}
        assert "signed by ada@example.net, approved by bob@example.net" in (await client.get(path, params=both)).text
        assert await ended(container, await begun(client, path, **both)) is OperationStatus.DONE


async def test_a_stray_machine_is_destroyed_and_a_changed_size_accepted(
    world: Command, container: Container, client: httpx.AsyncClient
) -> None:
    ada = container.instances.find("ada")
    stray = f"hermes-local-{ada.cell}-{'ab' * 6}"
    async with vendor_of(world.home / "local" / "world") as api:
        listed = await told(api, f"/machines/{ada.machine_id}")
        order = {"name": stray, "server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
        machine = (await api.post("/machines", json=order)).raise_for_status().json()
        await told(api, f"/machines/{machine['id']}")
        (await api.post(f"/machines/{ada.machine_id}/resize", json={"server_type": "basic"})).raise_for_status()
        await told(api, f"/machines/{ada.machine_id}", server_type="basic")
        drift = (await client.get("/console/drift/answer")).text
        adopt, accept = f"/console/machines/{stray}/change/adopt", f"/console/instances/{ada.id}/change/accept-size"
        assert (f'href="{adopt}"' in drift, f'href="{accept}"' in drift) == (True, True)
        assert "reports no instance" in (await client.get(adopt)).text
        remove = f"/console/machines/{stray}/change/remove-orphan"
        wrong = await client.post(remove, data={"reason": "x", "typed": "local"}, headers=OWN)
        assert wrong.status_code == 422
        assert await begun(client, remove, stray) == "/console/drift"
        assert (await api.get(f"/machines/{machine['id']}")).status_code == 404
    assert "is a basic at JustAVPS" in (await client.get(accept)).text
    assert await begun(client, accept) == f"/console/instances/{ada.id}"
    kinds = {row["kind"] for row in (await world.ok("fleet", "drift", "--json")).json["findings"]}
    assert not {"orphan", "resized"} & kinds, kinds


async def test_several_agents_are_repaired_at_once_as_drift_finds_them(
    world: Command, container: Container, client: httpx.AsyncClient
) -> None:
    users = ("eve", "fay")
    for user in users:
        await world.ok("provision", user, "--plan", "light")
        await stop_behind_its_back(world.home / "local" / "world", str(container.instances.find(user).machine_id))
    drift = (await client.get("/console/drift/answer", params={"where": "user=eve,user=fay"})).text
    [page] = [html.unescape(link) for link in re.findall(r'href="(/console/bulk/provision[^"]*)"', drift)]
    assert all(container.instances.find(user).id in page for user in users)
    assert (await client.get(page)).text.count("hermesops provision ") == len(users)
    answer = await client.post(page, headers=OWN)
    assert answer.status_code == 200, answer.text
    operations = parse_qs(urlsplit(answer.headers["hx-redirect"]).query)["of"][0].split(",")
    assert [await ended(container, operation) for operation in operations] == [OperationStatus.DONE] * len(users)
    assert (await world.ok("fleet", "drift", "--where", "user=eve,user=fay", "--json")).json["findings"] == []
