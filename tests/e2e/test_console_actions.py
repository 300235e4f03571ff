"""Each action of the console is its command's: the same preview, the same steps, the same outcome and audit entries.

Two agents of one simulated world go through the same life, one by pages and one by commands.
"""

import re
from collections.abc import AsyncIterator
from functools import partial
from typing import Any
from urllib.parse import unquote

import httpx
import pytest

from hermesops.agents.instances.preview.change_preview import step_key
from hermesops.app import Container
from hermesops.base.waiting import Pending, until
from hermesops.console.actions.action import About, ActionRequest
from hermesops.console.actions.running import RunningActions
from hermesops.console.actions.table import about, find, subject_of
from hermesops.model.operation import Operation, OperationStatus
from hermesops.model.rollout.records import RolloutId, RolloutState
from tests.support.pages.comparison import REASON, Compared, Comparison, lasting
from tests.support.pages.console import OWN, console_client, container_of
from tests.support.real.commands.command import Command, local_world
from tests.support.releases.simulated import built
from tests.support.vendor.outside_changes import delete_behind_its_back

pytestmark = pytest.mark.turns(150)

PAGE, COMMAND = "ada", "bob"
START = "/console/change/start-rollout"

LIFE: tuple[tuple[str, dict[str, str]], ...] = (
    ("restart", {}),
    ("provision", {"plan": "light"}),
    ("reboot", {}),
    ("back-up", {}),
    ("suspend", {"machine": "stopped"}),
    ("resume", {}),
    ("configure", {"set": "personality=kind"}),
    ("settings-back", {}),
    ("resize", {"plan": "heavy"}),
    ("restore", {"onto_new_machine": "on"}),
    ("move", {"region": "nbg1"}),
    ("terminate", {}),
    ("undo-termination", {}),
    ("terminate", {"now": "on"}),
)
"""Actions in their order, each with its values."""


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    async with local_world(tmp_path_factory.mktemp("actions"), driver="sim") as command:
        for user in (PAGE, COMMAND):
            await command.ok("provision", user, "--plan", "light")
        yield command.with_variables(HERMESOPS_GRACE_DAYS="7", HERMESOPS_LAST_BACKUP="required")


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


async def offers(client: httpx.AsyncClient, path: str, *names: str, alone: bool = False) -> None:
    """Wait until a page, which is some seconds old, offers these actions.

    Args:
        alone: Whether it offers no others.
    """

    async def look() -> bool | Pending[bool]:
        offered = set(re.findall(r'id="do-([a-z-]+)"', (await client.get(path)).text))
        is_so = offered == {*names} if alone else offered >= {*names}
        return True if is_so else Pending(f"offered: {offered}")

    await until(look, what=f"{path} offers {names}", timeout_s=30, every_s=0.2)


async def ended(container: Container, operation_id: str) -> OperationStatus:
    async def look() -> OperationStatus | Pending[OperationStatus]:
        operation = container.operation_directory.get(operation_id)
        return operation.status if operation.status.has_ended else Pending(operation.step)

    return await until(look, what=operation_id, timeout_s=120, every_s=0.1)


def done(container: Container, operation_id: str, user: str) -> Any:  # noqa: ANN401 - compared only
    """Kind, outcome, steps and intent of an operation, without ids and users."""
    history = container.operation_directory.history(operation_id)
    row = history.operation
    steps = [step_key(step.step, user) for step in history.steps]
    intent = {name: value for name, value in row.intent.items() if name not in {"before", "until", "snapshot"}}
    return row.kind, row.status, step_key(row.outcome, user), steps, lasting(intent, user)


def whoever(container: Container, operation_id: str) -> set[str]:
    history = container.operation_directory.history(operation_id)
    return {entry.who for entry in history.audit if operation_id in f"{entry.why}{entry.after}"}


async def test_each_action_of_an_instance_is_its_command(
    world: Command, container: Container, client: httpx.AsyncClient, compared: Compared
) -> None:
    # The size of a machine is no operation: test_console_upkeep.py accepts one.
    assert {name for name, _ in LIFE} | {"accept-size"} == set(about(About.INSTANCE))
    ids = {user: container.instances.find(user).id for user in (PAGE, COMMAND)}
    actor, pages = container.registry.actor, Comparison(container, client, world.run, compared)
    for name, values in LIFE:
        path = f"/console/instances/{ids[PAGE]}/change/{name}"
        await offers(client, f"/console/instances/{ids[PAGE]}", name)
        assert not await pages.preview(path, values, twin=ids[COMMAND], users=(PAGE, COMMAND)), name
        page = await pages.begin(path, PAGE, values)
        operation_id = page.rpartition("/")[2]
        assert await ended(container, operation_id) is OperationStatus.DONE, name
        command = await pages.command(path, values, twin=ids[COMMAND])
        assert command.exit_code == 0, str(command)
        newest = container.operation_directory.of_instance(ids[COMMAND], 1)[0]
        assert done(container, operation_id, PAGE) == done(container, newest.id, COMMAND), name
        assert whoever(container, operation_id) == {f"{actor} via console"}, name
        assert whoever(container, newest.id) == {actor}, name


QUICK = {
    "everybody": "on",
    "soak": "1s",
    "settle": "1s",
    "drill": "if_possible",
    "vitals": "none",
    "max_unavailable": "50%",
}


@pytest.fixture(scope="module")
async def fleet(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    """Agents that run one release."""
    async with local_world(tmp_path_factory.mktemp("rollouts"), driver="sim") as command:
        wishes = command.home / "users.csv"
        wishes.write_text("user,plan,region\n" + "".join(f"user-{number},light,\n" for number in range(4)))
        await command.ok("provision", "--from", str(wishes))
        yield command


async def came(container: Container, rollout_id: str, *states: RolloutState) -> None:
    async def look() -> RolloutState | Pending[RolloutState]:
        row = container.rollouts.get(RolloutId(rollout_id))
        return row.state if row.state in states else Pending(f"{row.state}: {row.reason}")

    await until(look, what=f"{rollout_id} is {states}", timeout_s=120, every_s=0.1)


async def test_a_bad_release_halts_and_is_rolled_back_by_pages_alone(fleet: Command, compared: Compared) -> None:
    container = container_of(fleet.environ)
    bad = await built(fleet, "bad", "start:1.0")
    async with console_client(container) as client:
        pages, start, values = Comparison(container, client, fleet.run, compared), START, {**QUICK, "release": bad}
        assert not await pages.preview(start, values)
        page = await client.get(start, params=values)
        assert all(text in page.text for text in (bad, "user-", "Worst case"))

        rollout = await pages.begin(start, values=values)
        rollout_id = rollout.rpartition("/")[2]
        await came(container, rollout_id, RolloutState.HALTED)
        shown = (await client.get(rollout)).text
        assert all(text in shown for text in ("halted", "stops at", "batch ended", REASON, "user-"))

        for name in about(About.ROLLOUT):
            assert await pages.preview(f"{rollout}/change/{name}") == (name in {"pause", "resume"}), name
        await offers(client, rollout, "promote", "retry", "abort", "roll-back", alone=True)
        refused = await client.post(f"{rollout}/change/roll-back", data={"reason": REASON}, headers=OWN)
        assert (refused.status_code, f"type {rollout_id} to confirm" in refused.text) == (422, True)
        await pages.begin(f"{rollout}/change/roll-back", rollout_id)
        await came(container, rollout_id, RolloutState.ROLLED_BACK)
        await offers(client, rollout, alone=True)
        for name in about(About.ROLLOUT):
            assert await pages.preview(f"{rollout}/change/{name}"), name
    status = (await fleet.ok("rollout", "status", rollout_id, "--json")).json
    assert not any(target["on_release"] for target in status["targets"])


async def test_a_rollout_is_paused_resumed_promoted_and_frozen_by_pages(fleet: Command, compared: Compared) -> None:
    container = container_of(fleet.environ)
    good = await built(fleet, "good")
    async with console_client(container) as client:
        values = {**QUICK, "release": good, "soak": "1h", "stages": "25%,100%"}
        pages = Comparison(container, client, fleet.run, compared)
        rollout = await pages.begin(START, values=values)
        rollout_id = rollout.rpartition("/")[2]
        for name, given, state in (
            ("pause", {}, RolloutState.PAUSED),
            ("resume", {}, RolloutState.RUNNING),
            ("promote", {"full": "on"}, RolloutState.DONE),
        ):
            await came(container, rollout_id, RolloutState.RUNNING, RolloutState.PAUSED)
            await offers(client, rollout, name)
            assert not await pages.preview(f"{rollout}/change/{name}", given), name
            assert await pages.begin(f"{rollout}/change/{name}", values=given) == rollout
            await came(container, rollout_id, state)
        history = (await fleet.ok("rollout", "history", rollout_id, "--json")).json["changes"]
        assert [row["what"] for row in history if row["who"] == container.registry.actor] == [
            *("start", "pause", "resume", "promote")
        ]

        await offers(client, rollout, "roll-back", alone=True)
        freeze_all, until_noon = "/console/change/freeze", {"until": "12h"}
        assert await pages.preview(freeze_all, {"until": "2020-01-01"}), "it has ended already"
        assert not await pages.preview(freeze_all, until_noon)
        assert await pages.begin(freeze_all, values=until_noon) == "/console/rollouts"
        [freeze] = (await fleet.ok("rollout", "freezes", "--json")).json["freezes"]
        assert (freeze["state"], freeze["reason"]) == ("holds", REASON)
        assert freeze["id"] in (await client.get("/console/rollouts")).text
        assert not await pages.preview(f"/console/freezes/{freeze['id']}/change/unfreeze")
        await pages.begin(f"/console/freezes/{freeze['id']}/change/unfreeze")
        assert (await fleet.ok("rollout", "freezes", "--json")).json["freezes"] == []


async def transcripts(world: Command) -> list[dict[str, Any]]:
    """Steps of runs of runbooks, the newest run first, by step with command and outcome."""
    entries = (await world.ok("audit", "log", "--json")).json["entries"]
    return [entry for entry in entries if entry["action"] == "runbook_run"]


async def healthy(client: httpx.AsyncClient, page: str) -> bool | Pending[bool]:
    """Whether the page of an instance shows it as healthy."""
    return True if '<span class="state healthy">' in (await client.get(page)).text else Pending("not yet")


async def ran(client: httpx.AsyncClient, page: str) -> str:
    """The page of a run that has ended."""

    async def look() -> str | Pending[str]:
        text = (await client.get(page)).text
        return text if '<p role="status">runs</p>' not in text else Pending("runs")

    return await until(look, what=page, timeout_s=240, every_s=0.5)


@pytest.fixture(scope="module")
async def broken(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    variables = {"HERMESOPS_LAST_BACKUP": "required", "HERMESOPS_GRACE_DAYS": "7"}
    async with local_world(tmp_path_factory.mktemp("broken"), driver="sim", variables=variables) as command:
        await command.ok("provision", "ada", "--plan", "light")
        await command.ok("backup", "create", "ada")
        yield command


async def test_a_runbook_runs_by_its_page_as_by_its_command(broken: Command, compared: Compared) -> None:
    container = container_of(broken.environ)
    values = {"instance": "ada"}
    async with console_client(container) as client:
        await broken.ok("instance", "suspend", "ada", "--reason", "t")
        pages, path = Comparison(container, client, broken.run, compared), "/console/runbooks/instance-suspended"
        assert not await pages.preview(f"{path}/change/run", values)
        assert "hermesops instance resume ada" in (await client.get(path, params=values)).text
        page = await pages.begin(f"{path}/change/run", values=values)
        text = await ran(client, page)
        assert "done: each step had the expected result" in text
        assert "hermesops instance resume ada" in text

        await broken.ok("instance", "suspend", "ada", "--reason", "t")
        assert (await pages.command(f"{path}/change/run", values)).exit_code == 0
        by_command, by_page = (await transcripts(broken))[:2]
        assert by_page["after"]["steps"] != []
        assert [(step["step"], step["outcome"]) for step in by_page["after"]["steps"]] == [
            (step["step"], step["outcome"]) for step in by_command["after"]["steps"]
        ]
        assert by_page["who"] == f"{by_command['who']} via console"


async def test_a_machine_that_is_gone_is_replaced_by_pages_alone(broken: Command, compared: Compared) -> None:
    container = container_of(broken.environ)
    lost = container.instances.find("ada").machine_id
    await delete_behind_its_back(broken.home / "local" / "world", str(lost))
    async with console_client(container) as client:
        drift = (await client.get("/console/drift/answer")).text
        assert all(text in drift for text in ("machine restorable", "backup restore ada --onto-new-machine"))
        [repair] = re.findall(r'href="/console/(instances/[^"]+/change/restore[^"]*)"', drift)
        assert "Preview</h2>" in (await client.get(f"/console/{repair}")).text
        pages = Comparison(container, client, broken.run, compared)
        page = await pages.begin("/console/runbooks/machine-gone/change/run", values={"instance": "ada"})
        assert "done: each step had the expected result" in await ran(client, page)
        instance_page = f"/console/instances/{container.instances.find('ada').id}"
        await until(partial(healthy, client, instance_page), what="ada is shown as healthy", timeout_s=60, every_s=0.5)
        assert "agree" in (await client.get("/console/drift/answer")).text
        assert "hermesops stack up platform" in (await client.get("/console/platform/answer")).text
        for path in ("/console/cost/answer", "/console/cells/cell1/preview"):
            shown = await client.get(path)
            assert (shown.status_code, "Unknown:" in shown.text) == (200, False), (path, shown.text)
    assert container.instances.find("ada").machine_id != lost


async def test_a_rollout_is_left_to_the_workers_where_the_console_ends(fleet: Command) -> None:
    container, start = container_of(fleet.environ), find(About.FLEET, "start-rollout")
    assert start is not None
    values = {**QUICK, "release": await built(fleet, "left"), "soak": "1h"}
    running = RunningActions(container)
    subject = await subject_of(container, About.FLEET, "")
    rollout_id = (await running.begin(start, ActionRequest(subject, values, REASON))).rpartition("/")[2]
    assert await running.close() == [f"rollout {rollout_id}"]
    assert container.rollouts.get(RolloutId(rollout_id)).state.has_runner
    await fleet.run("rollout", "abort", rollout_id, "--reason", "t")
    assert container.rollouts.get(RolloutId(rollout_id)).state is RolloutState.ABORTED


async def test_a_bulk_action_opens_an_operation_for_each_and_repeats_only_those_that_failed(fleet: Command) -> None:
    container = container_of(fleet.environ)
    await fleet.ok("instance", "suspend", "user-3", "--reason", "t")
    async with console_client(container) as client:
        page = (await client.get("/console/bulk/restart", params={"q": "user-"})).text
        assert page.count("Refused now") == 1
        assert page.count("hermesops instance restart user-") == 4
        response = await client.post("/console/bulk/restart?q=user-", data={"reason": REASON}, headers=OWN)
        batch = response.headers["hx-redirect"]
        ids = re.findall(r"[0-9a-f-]{36}", unquote(batch))
        assert len(ids) == 4  # three operations, and the instance that was refused
        for operation_id in ids[:3]:
            assert await ended(container, operation_id) is OperationStatus.DONE
        shown = (await client.get(batch)).text
        assert "3 of 3 done, 1 failed or refused" in shown
        [again] = re.findall(r'id="again" href="([^"]+)"', shown)
        await fleet.ok("instance", "resume", "user-3", "--reason", "t")
        page = (await client.get(again)).text
        assert page.count("hermesops instance restart user-") == page.count("hermesops instance restart user-3") == 1
        response = await client.post(again, data={"reason": REASON}, headers=OWN)
        [operation_id] = re.findall(r"[0-9a-f-]{36}", response.headers["hx-redirect"])
        assert await ended(container, operation_id) is OperationStatus.DONE
        assert "1 of 1 done, 0 failed or refused" in (await client.get(response.headers["hx-redirect"])).text
        for query in ("ids=x", "q=nobody", f"ids={','.join(ids[3:] * 51)}"):
            assert (await client.get(f"/console/bulk/restart?{query}")).status_code == 422, query


async def test_an_operation_is_continued_and_abandoned_by_pages(world: Command, compared: Compared) -> None:
    container = container_of(world.environ)
    await world.ok("provision", "cleo", "--plan", "light")

    async def leave() -> Operation:
        await world.ok("instance", "restart", "cleo", "--reason", "t", "--no-wait")
        [left] = container.operation_directory.list(ended=False)
        return left

    async with console_client(container) as client:
        pages, left = Comparison(container, client, world.run, compared), await leave()
        path = f"/console/operations/{left.id}"
        shown = (await client.get(path)).text
        assert all(text in shown for text in ("Continue…", "Abandon…"))
        assert not await pages.preview(f"{path}/change/continue")
        assert await pages.begin(f"{path}/change/continue") == path
        assert await ended(container, left.id) is OperationStatus.DONE
        await offers(client, path, alone=True)
        assert all([await pages.preview(f"{path}/change/{name}") for name in about(About.OPERATION)])
        other = await leave()
        assert (await pages.command(f"/console/operations/{other.id}/change/continue")).exit_code == 0
        assert done(container, left.id, "cleo") == done(container, other.id, "cleo")

        left = await leave()
        path = f"/console/operations/{left.id}"
        refused = await client.post(f"{path}/change/abandon", data={"reason": REASON, "typed": "x"}, headers=OWN)
        assert refused.status_code == 422
        assert not await pages.preview(f"{path}/change/abandon")
        await pages.begin(f"{path}/change/abandon", left.id[:8])
        assert container.operation_directory.get(left.id).status is OperationStatus.ABANDONED
        other = await leave()
        assert (await pages.command(f"/console/operations/{other.id}/change/abandon")).exit_code == 0
        assert done(container, left.id, "cleo") == done(container, other.id, "cleo")


def test_each_row_of_these_pages_was_compared_with_its_command(
    compared: Compared, request: pytest.FixtureRequest
) -> None:
    compared.refuse_gaps(request)
