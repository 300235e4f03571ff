"""A dry run passes the checks of a request and writes nothing."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from hermesops.agents.instances.preview.opening import DRY_RUN, DryRunOpener, unless_held
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.settings_patch import setting
from hermesops.agents.instances.requests.termination import Termination
from hermesops.errors import AlreadySoError, HermesError
from hermesops.model.fleet.instance import InstanceStatus
from hermesops.model.ids import ImageId, instance_subject
from hermesops.model.operation import LeaseHeldError, Operation
from hermesops.model.plan import Plan
from hermesops.store.operations.kinds.agents import Keep
from hermesops.store.operations.leases.keeper import LeaseKeeper
from tests.support.real.stores.registries import placed, registry_at
from tests.unit.agents.instances.requests.test_instance_requests import Surroundings, backup

WHY = "asked"

Ask = Callable[[InstanceRequests], Awaitable[Operation]]

CHANGES: dict[str, Ask] = {
    "suspend": lambda r: r.suspend("ada", keep=Keep.REMOVED, reason=WHY),
    "resize": lambda r: r.resize("ada", Plan.HEAVY, onto_new_machine=False, reason=WHY),
    "resize onto a new machine": lambda r: r.resize("ada", Plan.HEAVY, onto_new_machine=True, reason=WHY),
    "move": lambda r: r.move("ada", cell="", region="nbg1", reason=WHY),
    "restore": lambda r: r.restore("ada", snapshot="", reason=WHY),
    "terminate": lambda r: r.end("ada", Termination(at_once=True, keeps_backup=True), reason=WHY),
    "terminate without backup": lambda r: r.end("ada", Termination(at_once=True, keeps_backup=False), reason=WHY),
    "schedule a termination": lambda r: r.end("ada", Termination(at_once=False, keeps_backup=True), reason=WHY),
}


@pytest.fixture
def around(tmp_path: Path) -> Surroundings:
    registry = registry_at(f"sqlite:///{tmp_path / 'registry.db'}")
    registry.images.record(ImageId("image"), name="hermes-base", digest="d")
    registry.instances.set_status(placed(registry).id, InstanceStatus.RUNNING)
    around = Surroundings(registry)
    backup(around)
    return around


def dry(around: Surroundings) -> InstanceRequests:
    opener = DryRunOpener(around.registry, partial(unless_held, around.registry))
    return replace(around.requests(), opener=opener)


def rows(around: Surroundings) -> list[Any]:
    registry = around.registry
    return [
        registry.operations.list(),
        registry.unassigned.list(),
        registry.fleet.list_ordered(),
        registry.leases.list(),
        registry.audit.list(limit=1000),
    ]


@pytest.mark.parametrize("name", CHANGES)
async def test_a_dry_run_returns_the_operation_that_the_request_opens(around: Surroundings, name: str) -> None:
    ask, before = CHANGES[name], rows(around)
    planned = await ask(dry(around))
    assert rows(around) == before
    opened = await ask(around.requests())
    differs = {"until"}  # the moment of the request counts
    assert planned.id == DRY_RUN
    assert (planned.kind, planned.subject, planned.instance_id) == (opened.kind, opened.subject, opened.instance_id)
    assert {k: v for k, v in planned.intent.items() if k not in differs} == {
        k: v for k, v in opened.intent.items() if k not in differs
    }
    assert (await ask(dry(around))).id == opened.id, "one that is unfinished is continued"


@pytest.mark.parametrize("name", CHANGES)
@pytest.mark.parametrize("status", [InstanceStatus.SUSPENDED, InstanceStatus.PROVISIONING])
async def test_a_refused_change_refuses_in_a_dry_run_with_the_same_error(
    around: Surroundings, name: str, status: InstanceStatus
) -> None:
    around.registry.instances.set_status(around.registry.instances.find("ada").id, status)
    around.sold_in = ()
    planned = await _end(CHANGES[name], dry(around))
    assert planned == await _end(CHANGES[name], around.requests())


async def _end(ask: Ask, requests: InstanceRequests) -> str:
    try:
        return (await ask(requests)).kind
    except HermesError as error:
        return f"{type(error).__name__} {error.message} {error.hint}"


async def test_a_cancelled_termination_stays_scheduled(around: Surroundings) -> None:
    await CHANGES["schedule a termination"](around.requests())
    around.is_fenced, before = True, rows(around)
    await dry(around).resume("ada", undo=True, reason=WHY)
    assert rows(around) == before


async def test_a_dry_run_of_settings_names_the_changed_ones_and_writes_none(around: Surroundings) -> None:
    ada, registry = around.registry.instances.find("ada"), around.registry
    before, settings = rows(around), registry.instance_secrets.settings(ada.id)
    change = setting(["disabled_tools=browser"])
    planned = await dry(around).configure("ada", change, reason=WHY)
    assert (planned.id, planned.intent["changed"]) == (DRY_RUN, ["disabled_tools"])
    assert (rows(around), registry.instance_secrets.settings(ada.id)) == (before, settings)
    opened = await around.requests().configure("ada", change, reason=WHY)
    assert (planned.kind, planned.intent) == (opened.kind, opened.intent)


async def test_a_fulfilled_change_is_fulfilled_in_a_dry_run(around: Surroundings) -> None:
    with pytest.raises(AlreadySoError, match="light"):
        await dry(around).resize("ada", Plan.LIGHT, onto_new_machine=False, reason=WHY)


async def test_an_instance_that_another_process_works_on_refuses_as_the_request_does(around: Surroundings) -> None:
    subject = instance_subject(around.registry.instances.find("ada").id)
    async with LeaseKeeper(around.registry, subject):
        with pytest.raises(LeaseHeldError) as real:
            await LeaseKeeper(around.registry, subject).__aenter__()
        with pytest.raises(LeaseHeldError) as planned:
            await CHANGES["resize"](dry(around))
    assert (planned.value.message, planned.value.hint) == (real.value.message, real.value.hint)
    assert planned.value.exit_code == real.value.exit_code
