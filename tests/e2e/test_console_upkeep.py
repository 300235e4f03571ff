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
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.rollout.records import RolloutId, RolloutState
from tests.support.pages.comparison import REASON, Compared, Comparison
from tests.support.pages.console import OWN, console_client, container_of
from tests.support.real.commands.command import Command, local_world
from tests.support.real.commands.operators import two_operators
from tests.support.releases.simulated import built
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


@pytest.fixture(scope="module")
def compared() -> Compared:
    return Compared()


@pytest.fixture
def pages(world: Command, container: Container, client: httpx.AsyncClient, compared: Compared) -> Comparison:
    return Comparison(container, client, world.run, compared)


async def test_a_job_fills_a_pool_and_the_pool_is_drained(
    world: Command, container: Container, client: httpx.AsyncClient, pages: Comparison
) -> None:
    jobs = (await client.get("/console/jobs/answer")).text
    job = "/console/jobs/pools/change/run"
    assert f'href="{job}"' in jobs
    wrong = await client.post(job, data={"reason": "x", "typed": "pool"}, headers=OWN)
    assert wrong.status_code == 422
    assert not await pages.preview(job)
    cost = (await world.ok("job", "run", "pools", "--dry-run", "--json")).json["cost"]
    assert (cost["before"]["machines"], cost["after"]["machines"]) == (0, 1)
    assert float(cost["after"]["monthly"]) > 0
    running = await pages.begin(job, "pools")
    assert await pages.operation(running) is OperationStatus.DONE
    assert "Job run: pools" in (await client.get(running)).text

    async def pooled() -> list[object] | Pending[list[object]]:
        machines = (await world.ok("pool", "list", "--json")).json["machines"]
        return machines if machines and machines[0]["status"] == "ready" else Pending("not yet")

    [machine] = await until(pooled, what="a machine in the pool", timeout_s=120, every_s=0.3)
    by_page = await done_by(world, "pools")
    assert (await pages.command(job)).exit_code == 0
    assert await done_by(world, "pools") == by_page
    assert isinstance(machine, dict)
    waste = (await world.ok("fleet", "cost", "--json")).json["pools"]
    assert [(row["cell"], row["plan"], row["machines"]) for row in waste["cells"]] == [(machine["cell"], "light", 1)]
    assert waste["monthly"] == cost["after"]["monthly"]
    assert waste["monthly"] in (await client.get("/console/cost/answer")).text

    cell = f"/console/cells/{machine['cell']}"
    drain = f"{cell}/change/drain-pool"
    assert f'href="{drain}"' in (await client.get(cell)).text
    assert machine["machine_name"] in (await client.get(drain)).text
    assert not await pages.preview(drain)
    page = await pages.begin(drain, machine["cell"])
    assert await pages.operation(page) is OperationStatus.DONE
    assert (await world.ok("pool", "list", "--json")).json["machines"] == []
    assert (await pages.command(drain)).exit_code == 0
    by_command, of_page = operations(container, OperationKind.POOL_FILL)
    assert of_page == by_command
    entries = (await world.ok("audit", "log", "--json")).json["entries"]
    assert [entry["who"].endswith("via console") for entry in entries if entry["why"] == REASON] != []


async def done_by(world: Command, job: str) -> object:
    """The result of the last run of a job."""
    rows = (await world.ok("job", "list", "--json")).json["jobs"]
    return next((row["done"], row["problem"]) for row in rows if row["job"] == job)


def operations(container: Container, kind: OperationKind) -> list[object]:
    """Status, outcome and intent of the two newest operations of a kind."""
    rows = [row for row in container.operation_directory.recent(50) if row.kind is kind][:2]
    return [(row.status, row.outcome, dict(row.intent)) for row in rows]


async def test_tokens_are_rotated_as_a_rollout(container: Container, pages: Comparison) -> None:
    path, values = "/console/change/rotate-tokens", {"stages": "100%", "soak": "0s", "settle": "0s"}
    assert await pages.preview(path, values), "no target is named"
    values["everybody"] = "on"
    assert not await pages.preview(path, values)
    page = await pages.begin(path, values=values)
    rollout_id = RolloutId(page.rpartition("/")[2])

    async def look() -> RolloutState | Pending[RolloutState]:
        state = container.rollouts.get(rollout_id).state
        return state if state.has_ended else Pending(state.value)

    assert await until(look, what=rollout_id, timeout_s=240, every_s=0.5) is RolloutState.DONE
    assert (await pages.command(path, values)).exit_code == 0
    by_command, by_page = container.rollouts.list()[:2]
    assert by_page.id == rollout_id
    assert [(row.action.value, row.state, row.spec) for row in (by_page, by_command)] == [
        ("tokens", RolloutState.DONE, by_page.spec)
    ] * 2


async def test_what_is_not_so_is_refused_before_it_begins(
    client: httpx.AsyncClient, container: Container, pages: Comparison
) -> None:
    ada = f"/console/instances/{container.instances.find('ada').id}"
    assert "is a starter at JustAVPS" in (await client.get(f"{ada}/change/accept-size")).text
    for path, words in (
        ("/console/machines/hermes-local-none/change/adopt", "no orphan"),
        ("/console/machines/hermes-local-none/change/remove-orphan", "no orphan"),
        ("/console/jobs/none/change/run", "no job"),
        ("/console/drills/none/change/run", "no drill"),
        ("/console/releases/none-1/change/revoke", "no release"),
    ):
        page = (await client.get(path)).text
        assert ("Refused now:" in page, words in page) == (True, True), (path, re.findall(r"Refused now:.*", page))
        assert await pages.preview(path), path
    assert (await client.get("/console/machines/A%20b/change/adopt")).status_code == 422


async def test_a_fault_is_drilled_on_a_machine_of_the_pool(
    world: Command, client: httpx.AsyncClient, pages: Comparison
) -> None:
    drill = "/console/drills/machine-deleted/change/run"
    assert not await pages.preview(drill)
    page = await pages.begin(drill, "machine-deleted")

    async def ran() -> str | Pending[str]:
        text = (await client.get(page)).text
        return text if '<p role="status">runs</p>' not in text else Pending("runs")

    refused = await until(ran, what=page, timeout_s=60, every_s=0.3)
    assert "no machine of a warm pool is ready" in refused
    assert (await pages.command(drill)).json["message"] in html.unescape(refused)
    await world.ok("job", "run", "pools")
    page = await pages.begin(drill, "machine-deleted")
    text = await until(ran, what=page, timeout_s=240, every_s=0.5)
    assert "done: each step had the expected result" in text, text
    drills = (await world.ok("drill", "list", "--json")).json["drills"]
    assert next(row for row in drills if row["drill"] == "machine-deleted")["found"] == "well"
    assert "drill-machine-deleted" not in (await world.ok("instance", "list", "--json")).stdout


async def test_a_stack_is_run_by_its_cells_page(
    container: Container, client: httpx.AsyncClient, pages: Comparison
) -> None:
    cell = container.instances.find("ada").cell
    path = f"/console/cells/{cell}/change/up"
    preview = (await client.get(path)).text
    assert ("No resource changes." in preview, f"hermesops stack up {cell}" in preview) == (True, True)
    assert not await pages.preview(path)
    assert await pages.operation(await pages.begin(path)) is OperationStatus.DONE
    assert (await pages.command(path)).exit_code == 0
    by_command, by_page = operations(container, OperationKind.STACK_UP)
    assert by_page == by_command


async def test_a_saved_preview_is_run_with_the_approval_of_another_operator(
    world: Command, tmp_path: Path, compared: Compared
) -> None:
    asks, approves = two_operators(world, tmp_path)
    container = container_of(asks.environ)
    preview, approval, path = str(tmp_path / "preview"), str(tmp_path / "approval"), "/console/change/up-saved"
    await asks.ok("stack", "preview", container.instances.find("ada").cell, "--save", preview)
    await approves.ok("approval", "sign", preview, "--save", approval, "--yes")
    (tmp_path / "wrong").write_text("no preview")
    async with console_client(container) as client:
        pages = Comparison(container, client, asks.run, compared)
        for name in (str(tmp_path / "wrong"), "/dev/zero", str(tmp_path / "none"), str(tmp_path)):
            assert "Refused now" in (await client.get(path, params={"saved": name})).text, name
        alone = (await client.get(path, params={"saved": preview})).text
        assert "another operator&#39;s approval" in alone
        assert "hermesops approval sign" in alone, "the command that signs"
        assert await pages.preview(path, {"saved": preview})
        both = {"saved": preview, "approval": approval}
        assert "signed by ada@example.net, approved by bob@example.net" in (await client.get(path, params=both)).text
        assert not await pages.preview(path, both)
        assert await pages.operation(await pages.begin(path, values=both)) is OperationStatus.DONE
        assert (await pages.command(path, both)).exit_code == 0
        by_command, by_page = operations(container, OperationKind.STACK_UP)
        assert by_page == by_command


async def test_a_stray_machine_is_destroyed_and_a_changed_size_accepted(
    world: Command, container: Container, client: httpx.AsyncClient, pages: Comparison
) -> None:
    ada = container.instances.find("ada")
    strays = [f"hermes-local-{ada.cell}-{digits * 6}" for digits in ("ab", "cd")]
    async with vendor_of(world.home / "local" / "world") as api:
        listed = await told(api, f"/machines/{ada.machine_id}")
        machines = []
        for stray in strays:
            order = {
                "name": stray,
                "server_type": "starter",
                "region": listed["region"],
                "image_id": listed["image_id"],
            }
            machines.append((await api.post("/machines", json=order)).raise_for_status().json())
        for machine in machines:
            await told(api, f"/machines/{machine['id']}")
        (await api.post(f"/machines/{ada.machine_id}/resize", json={"server_type": "basic"})).raise_for_status()
        await told(api, f"/machines/{ada.machine_id}", server_type="basic")
        drift = (await client.get("/console/drift/answer")).text
        adopt = f"/console/machines/{strays[0]}/change/adopt"
        accept = f"/console/instances/{ada.id}/change/accept-size"
        assert (f'href="{adopt}"' in drift, f'href="{accept}"' in drift) == (True, True)
        assert "reports no instance" in (await client.get(adopt)).text
        assert await pages.preview(adopt)
        refused = await client.post(adopt, data={"reason": "x"}, headers=OWN)
        assert (refused.status_code, (await pages.command(adopt)).json["message"] in refused.text) == (409, True)
        remove, other = (f"/console/machines/{stray}/change/remove-orphan" for stray in strays)
        wrong = await client.post(remove, data={"reason": "x", "typed": "local"}, headers=OWN)
        assert wrong.status_code == 422
        assert not await pages.preview(remove)
        assert await pages.begin(remove, strays[0]) == "/console/drift"
        assert (await pages.command(other)).exit_code == 0
        for machine in machines:
            assert (await api.get(f"/machines/{machine['id']}")).status_code == 404
    by_page, by_command = pages.noted("orphan_removed", 2)
    assert by_page[:2] == by_command[:2] == ("machine", REASON)
    assert [who.endswith("via console") for who in pages.whoever("orphan_removed", 2)] == [True, False]
    assert "is a basic at JustAVPS" in (await client.get(accept)).text
    assert not await pages.preview(accept)
    assert await pages.begin(accept) == f"/console/instances/{ada.id}"
    assert (await pages.command(accept)).json["outcome"] == "ada has a basic, as ordered", "accepted by the page"
    kinds = {row["kind"] for row in (await world.ok("fleet", "drift", "--json")).json["findings"]}
    assert not {"orphan", "resized"} & kinds, kinds


async def test_releases_are_built_and_revoked_an_image_is_built_and_the_key_rotated(
    world: Command, client: httpx.AsyncClient, pages: Comparison
) -> None:
    async def ran(page: str) -> str:
        async def look() -> str | Pending[str]:
            text = (await client.get(page)).text
            return text if '<p role="status">runs</p>' not in text else Pending("runs")

        return await until(look, what=page, timeout_s=120, every_s=0.2)

    for name, listing, values, outcome in (
        ("build-release", "releases", {"note": "by page"}, "built"),
        ("build-image", "images", {"name": "hermes-base"}, "is up to date"),
        ("rotate-registry-key", "secrets", {"prepare": "on"}, "seals nothing yet"),
        ("rotate-registry-key", "secrets", {}, "everything is sealed with key"),
    ):
        path = f"/console/change/{name}"
        assert f'href="{path}"' in (await client.get(f"/console/{listing}")).text
        assert not await pages.preview(path, values)
        text = await ran(await pages.begin(path, values=values))
        assert outcome in text, text
        command = await pages.command(path, values)
        assert command.exit_code == 0, str(command)
    assert "no image" in await ran(await pages.begin("/console/change/build-image", values={"name": "none"}))
    [good, bad] = [await built(world, note) for note in ("revoked-by-page", "revoked-by-command")]
    path, other = (f"/console/releases/{release}/change/revoke" for release in (good, bad))
    assert f'href="{path}"' in (await client.get(f"/console/releases/{good}")).text
    assert not await pages.preview(path)
    assert await pages.begin(path, good) == "/console/releases"
    assert (await pages.command(other)).exit_code == 0
    states = {row["id"]: row["state"] for row in (await world.ok("release", "list", "--json")).json["releases"]}
    assert states[good] == states[bad] != "good"
    by_page, by_command = pages.noted("release_revoked", 2)
    assert by_page[:2] == by_command[:2] == ("release", REASON)


async def test_several_agents_are_repaired_at_once_as_drift_finds_them(
    world: Command, container: Container, client: httpx.AsyncClient, pages: Comparison
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
    assert [await pages.operation(operation) for operation in operations] == [OperationStatus.DONE] * len(users)
    assert (await world.ok("fleet", "drift", "--where", "user=eve,user=fay", "--json")).json["findings"] == []


def test_each_row_of_these_pages_was_compared_with_its_command(
    compared: Compared, request: pytest.FixtureRequest
) -> None:
    compared.refuse_gaps(request)
