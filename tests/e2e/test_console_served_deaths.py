"""Actions of the served console in a simulated world: a worker dies after it began one, and the next begins none."""

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermesops.app import Container
from hermesops.localcloud.vendors.issuer import OPERATORS
from hermesops.model.access.operator_request import NewOperatorRequest, OperatorRequest
from hermesops.model.fleet.instance import Instance
from hermesops.model.ids import instance_subject
from hermesops.model.operation import OperationKind, OperationStatus
from hermesops.model.rollout.records import RolloutState
from hermesops.store.registry import Registry
from hermesops.store.registry.repositories.operator_requests import OperatorRequestRows
from tests.support.pages.console import container_of
from tests.support.pages.operators import ServedConsole, served_console, settings_of
from tests.support.real.commands.command import Command, local_world
from tests.support.vendor.outside_changes import resize_behind_its_back, told, vendor_of

pytestmark = pytest.mark.turns(60)

_VERA, _OTTO, ADELE = OPERATORS


@pytest.fixture(scope="module")
async def world(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Command]:
    pooled = {"HERMESOPS_POOL_SIZE": "light=1"}
    async with local_world(tmp_path_factory.mktemp("deaths"), driver="sim", variables=pooled) as command:
        await command.ok("provision", "ada", "--plan", "light")
        yield command


@pytest.fixture
async def console(world: Command, tmp_path: Path) -> AsyncIterator[ServedConsole]:
    url = f"sqlite:///{container_of(world.environ).registry_place.file}"
    async with served_console(url, tmp_path / "console") as console:
        yield console


@dataclass
class Workers:
    """The world's workers, which decide requests of an admin who signed in a moment ago."""

    container: Container
    console: ServedConsole

    @property
    def registry(self) -> Registry:
        return self.container.registry

    @property
    def ada(self) -> Instance:
        return self.container.instances.find("ada")

    def add(self, about: str, subject: str, action: str, form: Mapping[str, str], *, is_preview: bool = False) -> str:
        proof = self.console.issuer.id_token(ADELE)
        new = NewOperatorRequest(ADELE.name, about, subject, action, form, "a test", proof, is_preview=is_preview)
        id_ = OperatorRequestRows(self.registry._database).add(new)
        assert id_
        return id_

    async def decided(self, id_: str) -> OperatorRequest:
        async with self.container.connect() as connected:
            await connected.operator_request_carrier.run()
        request = self.registry.operator_requests.get(id_)
        assert request
        return request

    async def previewed(self, *request: Any) -> OperatorRequest:  # noqa: ANN401 - as of add
        return await self.decided(self.add(*request, is_preview=True))

    async def begun(self, monkeypatch: pytest.MonkeyPatch, *request: Any) -> tuple[OperatorRequest, str]:  # noqa: ANN401 - as of add
        """The request after a worker died with it and another one looked, and its reason."""
        id_ = self.add(*request)
        with monkeypatch.context() as patched:
            patched.setattr(type(self.registry.operator_requests), "decide", _die)
            with pytest.raises(_DeadError):
                await self.decided(id_)
        return await self.decided(id_), f"a test (console request {id_})"

    def opened(self, reason: str) -> list[OperationKind]:
        """The kinds of the operations that were opened for a reason."""
        return [row.kind for row in self.registry.operations.list() if row.intent.get("reason") == reason]

    async def end(self, operation_id: str) -> OperationStatus:
        """The status of an operation, once it was run."""
        async with self.container.connect() as connected:
            await connected.operations.run(self.registry.operations.get(operation_id))
        return self.registry.operations.get(operation_id).status


class _DeadError(BaseException):
    """The process died here."""


def _die(*_: object) -> None:
    raise _DeadError


@pytest.fixture
def workers(world: Command, console: ServedConsole) -> Workers:
    settings = settings_of(console.issuer.url, "", Path("/"))
    of_console = {name: value for name, value in settings.items() if name.startswith("HERMESOPS_CONSOLE_")}
    return Workers(container_of({**world.environ, **of_console}), console)


async def test_an_operation_is_opened_once_for_a_request(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    ada = workers.ada
    requests: Mapping[OperationKind, tuple[str, str, str, Mapping[str, str]]] = {
        OperationKind.BACKUP: ("instances", ada.id, "back-up", {}),
        OperationKind.PROVISION: ("instances", ada.id, "provision", {"plan": "light"}),
        OperationKind.STACK_UP: ("cells", ada.cell, "up", {}),
        OperationKind.JOB_RUN: ("jobs", "pools", "run", {}),
    }
    for kind, parts in requests.items():
        preview = await workers.previewed(*parts)
        assert preview.state == "previewed", (kind, preview.detail)
        assert workers.registry.operations.list(unfinished=True) == (), kind
        request, reason = await workers.begun(monkeypatch, *parts)
        assert (request.state, workers.opened(reason)) == ("opened", [kind]), (kind, request.detail)
        assert request.answer == f"operations/{request.operation_id}"
        assert await workers.end(request.operation_id or "") is OperationStatus.DONE, kind
        # Died, ended, and looked at again: it has begun.
        assert workers.opened(reason) == [kind]


async def test_a_pool_is_drained_once_for_a_request(workers: Workers, monkeypatch: pytest.MonkeyPatch) -> None:
    cell = workers.ada.cell
    if not workers.container.pool_machines.list([cell]):
        filling, _ = await workers.begun(monkeypatch, "jobs", "pools", "run", {})
        await workers.end(filling.operation_id or "")
    [machine] = workers.container.pool_machines.list([cell])
    preview = await workers.previewed("cells", cell, "drain-pool", {})
    assert (preview.state, machine.name in preview.answer) == ("previewed", True), preview.detail
    request, reason = await workers.begun(monkeypatch, "cells", cell, "drain-pool", {})
    assert (request.state, workers.opened(reason)) == ("opened", [OperationKind.POOL_FILL]), request.detail
    assert await workers.end(request.operation_id or "") is OperationStatus.DONE
    assert workers.container.pool_machines.list([cell]) == ()


async def test_an_operation_is_continued_and_abandoned_for_a_request(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, operations = workers.ada, workers.registry.operations
    opened = operations.open(OperationKind.BACKUP, "x/1", intent={"user": "ada", "why": "x"}, instance_id=ada.id)
    preview = await workers.previewed("operations", opened.id, "continue", {})
    assert preview.state == "previewed", preview.detail
    continued, _ = await workers.begun(monkeypatch, "operations", opened.id, "continue", {})
    assert (continued.state, continued.answer) == ("opened", f"operations/{opened.id}"), continued.detail
    assert operations.get(opened.id).step == "left to the workers"
    abandoned, reason = await workers.begun(monkeypatch, "operations", opened.id, "abandon", {})
    row = operations.get(opened.id)
    assert (abandoned.state, row.status, row.outcome) == ("opened", OperationStatus.ABANDONED, f"abandoned: {reason}")
    again = await workers.decided(workers.add("operations", opened.id, "abandon", {}))
    assert (again.state, "has ended" in again.detail) == ("refused", True)


async def test_tokens_are_rotated_by_one_rollout_for_a_request(
    workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {"everybody": "on", "stages": "100%", "soak": "0s", "settle": "0s"}
    preview = await workers.previewed("fleet", "", "rotate-tokens", form)
    assert preview.state == "previewed", preview.detail
    request, reason = await workers.begun(monkeypatch, "fleet", "", "rotate-tokens", form)
    rollouts = [row for row in workers.container.rollouts.list() if row.reason == reason]
    assert (request.state, [row.action.value for row in rollouts]) == ("opened", ["tokens"]), request.detail
    assert rollouts[0].who == f"{ADELE.name}@oidc:console.test"
    workers.container.rollout_commands.abort(rollouts[0].id, why="the end of a test")
    [operation] = workers.registry.operations.list(unfinished=True)
    await workers.end(operation.id)
    assert workers.container.rollouts.get(rollouts[0].id).state is RolloutState.ABORTED


async def test_machines_are_repaired_once_for_a_request(
    world: Command, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, folder = workers.ada, world.home / "local" / "world"
    stray = f"hermes-local-{ada.cell}-{'ab' * 6}"
    async with vendor_of(folder) as api:
        listed = await told(api, f"/machines/{ada.machine_id}")
        order = {"name": stray, "server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
        machine = (await api.post("/machines", json=order)).raise_for_status().json()
        await told(api, f"/machines/{machine['id']}")
        named = ("machines", stray, "remove-orphan", {"id": machine["id"]})
        preview = await workers.previewed(*named)
        assert (preview.state, machine["id"] in preview.answer) == ("previewed", True), preview.detail
        removed, reason = await workers.begun(monkeypatch, *named)
        assert (removed.state, removed.answer) == ("opened", "drift"), removed.detail
        assert (await api.get(f"/machines/{machine['id']}")).status_code == 404
        assert noted(workers, f"machine/{stray}", reason) == ["orphan_removed"]
        await resize_behind_its_back(folder, str(ada.machine_id))
        await told(api, f"/machines/{ada.machine_id}", server_type="basic")
    accepted, reason = await workers.begun(monkeypatch, "instances", ada.id, "accept-size", {})
    assert (accepted.state, accepted.answer) == ("opened", f"instances/{ada.id}"), accepted.detail
    assert len(noted(workers, instance_subject(ada.id), reason)) == 1


async def test_a_machine_whose_removal_was_noted_and_not_done_is_removed(
    world: Command, workers: Workers, monkeypatch: pytest.MonkeyPatch
) -> None:
    ada, stray = workers.ada, f"hermes-local-{workers.ada.cell}-{'cd' * 6}"
    async with vendor_of(world.home / "local" / "world") as api:
        listed = await told(api, f"/machines/{ada.machine_id}")
        order = {"name": stray, "server_type": "starter", "region": listed["region"], "image_id": listed["image_id"]}
        machine = (await api.post("/machines", json=order)).raise_for_status().json()
        await told(api, f"/machines/{machine['id']}")
        id_ = workers.add("machines", stray, "remove-orphan", {})
        from hermesops.vendor.justavps import Client  # noqa: PLC0415 - the one place where a deletion is stopped

        with monkeypatch.context() as patched:
            patched.setattr(Client, "delete_machine", _die)
            with pytest.raises(_DeadError):
                await workers.decided(id_)
        assert (await api.get(f"/machines/{machine['id']}")).status_code == 200
        assert (await workers.decided(id_)).state == "opened"
        assert (await api.get(f"/machines/{machine['id']}")).status_code == 404


async def test_an_adoption_that_was_done_is_found(workers: Workers) -> None:
    ada, id_ = workers.ada, workers.add("machines", workers.ada.machine_name, "adopt", {})
    reason = f"a test (console request {id_})"
    workers.registry.audit.append("machine_taken", instance_subject(ada.id), why=reason)  # as the adoption notes it
    request = await workers.decided(id_)
    assert (request.state, request.answer) == ("opened", "drift"), request.detail
    other = await workers.decided(workers.add("machines", workers.ada.machine_name, "adopt", {}))
    assert (other.state, "no orphan" in other.detail) == ("refused", True), other.detail


async def test_a_page_of_an_agent_of_before_makes_no_new_agent(world: Command, workers: Workers) -> None:
    await world.ok("provision", "eve", "--plan", "light")
    former = workers.container.instances.find("eve")
    await world.ok("instance", "terminate", "eve", "--now", "--without-backup", "--yes", "--reason", "a test")
    count = partial(workers.container.instances.list, terminated=True)
    before = len(count())
    for is_newer in (False, True):
        if is_newer:
            await world.ok("provision", "eve", "--plan", "light")
            before += 1
        request = await workers.decided(workers.add("instances", former.id, "provision", {"plan": "light"}))
        assert (request.state, "was terminated" in request.detail) == ("refused", True), request.detail
        assert len(count()) == before


def noted(workers: Workers, subject: str, reason: str) -> list[str]:
    """The actions of the audit entries of a subject for a reason."""
    entries = workers.registry.audit.list(subject=subject)
    return [entry.action for entry in entries if entry.why == reason and entry.action != "operator_request_decided"]
