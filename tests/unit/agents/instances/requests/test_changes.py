"""Ending and restarting: written under the instance's lease, so that refused means that nothing was changed."""

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import pytest

from hermesops.agents.instances.observation import MachineState, Observation
from hermesops.agents.instances.requests.changes import InstanceRequests
from hermesops.agents.instances.requests.opening import OperationOpener
from hermesops.agents.model_providers.service import using
from hermesops.errors import RefusedError
from hermesops.model.fleet.health import NodeState
from hermesops.model.fleet.instance import Instance, InstanceSettings, InstanceStatus
from hermesops.model.ids import InstanceId, MachineId, OperationId
from hermesops.model.operation import LeaseHeldError, Operation, OperationKind, OperationStatus
from hermesops.model.providers.table import BY_ID
from hermesops.store.operations.kinds.agents import TerminateIntent
from hermesops.vendor.justavps.wire import MachineStatus
from tests.support.fakes.instances import ADA, MACHINE
from tests.support.fakes.registry import FakeRegistry
from tests.support.users.model_provider import choice_of

AT = datetime(2026, 1, 1, tzinfo=UTC)


@dataclass
class Rows(FakeRegistry):
    """A registry in memory that takes nothing without the lease."""

    is_held: bool = False
    is_ours: bool = False
    is_asleep: bool = False
    under_way: Mapping[str, object] | None = None
    unfinished: OperationKind | None = None
    written: list[str] = field(default_factory=list)

    @asynccontextmanager
    async def hold_lease(self, _subject: str) -> AsyncIterator[None]:
        if self.is_held:
            raise LeaseHeldError("another works on it")
        self.is_ours = True
        yield
        self.is_ours = False

    def instances_find(self, _text: str) -> Instance:
        return replace(ADA, status=InstanceStatus.SUSPENDED) if self.is_asleep else ADA

    def instance_secrets_settings(self, _instance_id: InstanceId) -> InstanceSettings:
        return InstanceSettings()

    def operations_list(self, **_asked: object) -> tuple[Operation, ...]:
        if self.unfinished is None:
            return ()
        running = OperationStatus.RUNNING
        return (Operation(OperationId("begun"), self.unfinished, "s", ADA.id, {}, running, "", "", AT, AT),)

    def operations_open(
        self,
        kind: OperationKind,
        subject: str,
        *,
        intent: Mapping[str, object] | None = None,
        instance_id: InstanceId | None = None,
    ) -> Operation:
        self._write(kind)
        status, intent_fields = OperationStatus.PENDING, self.under_way or intent or {}
        return Operation(OperationId("o"), kind, subject, instance_id, intent_fields, status, "", "", AT, AT)

    def instances_mark_for_deletion(self, _instance_id: InstanceId, *, why: str = "") -> None:
        assert why
        self._write("given up")

    def _write(self, what: str) -> None:
        assert self.is_ours, "written without the lease"
        self.written.append(what)


class World:
    """A machine whose gateway runs."""

    async def machine(self, _instance: Instance) -> Any:  # noqa: ANN401 - only its id is asked
        return type("Machine", (), {"id": MACHINE})

    @property
    def gateways(self) -> "World":
        return self

    async def invocation(self, _machine_id: MachineId) -> str:
        return "start-1"

    async def observe(self, _instance_id: InstanceId) -> Observation:
        node = NodeState(ADA.id, 1, "", "r", takes_endpoint=False)
        return Observation(ADA, MachineState(MACHINE, MachineStatus.READY), node)


TERMINATION = TerminateIntent(user="ada", machine_name=ADA.machine_name, reason="", keeps_backup=False).to_json()


def requests_in(rows: Rows) -> InstanceRequests:
    registry: Any = rows
    world: Any = World()
    return InstanceRequests(registry, world, world, world, world, OperationOpener(registry, rows.hold_lease))


Ask = Callable[[InstanceRequests], Awaitable[Operation]]


async def terminate(requests: InstanceRequests) -> Operation:
    return await requests.terminate("ada", keeps_backup=False, reason="asked")


async def restart(requests: InstanceRequests) -> Operation:
    return await requests.restart("ada")


@pytest.mark.parametrize(("ask", "written"), [(terminate, ["terminate", "given up"]), (restart, ["restart"])])
async def test_what_is_asked_is_written_under_the_lease(ask: Ask, written: list[str]) -> None:
    rows = Rows()
    operation = await ask(requests_in(rows))
    assert operation.subject == f"instance/{ADA.id}"
    assert rows.written == written


@pytest.mark.parametrize(
    ("keeps_backup", "under_way", "written"),
    [
        (True, None, ["terminate"]),
        (False, {"keeps_backup": True}, ["terminate"]),
        (True, {"keeps_backup": False}, ["terminate", "given up"]),
    ],
)
async def test_a_machine_whose_last_backup_is_to_be_proved_first_is_not_given_up(
    under_way: Mapping[str, object] | None, written: list[str], *, keeps_backup: bool
) -> None:
    """A termination that is under way is ended as it was asked for."""
    rows = Rows(under_way=under_way and {**TERMINATION, **under_way})
    await requests_in(rows).terminate("ada", keeps_backup=keeps_backup, reason="asked")
    assert rows.written == written


@pytest.mark.parametrize("ask", [terminate, restart])
async def test_while_somebody_works_on_it_nothing_is_written(ask: Ask) -> None:
    """A machine given up beside a provision would be destroyed by the next run of its cell, though we said refused."""
    rows = Rows(is_held=True)
    with pytest.raises(LeaseHeldError, match="another works on it"):
        await ask(requests_in(rows))
    assert rows.written == []


async def test_a_gateway_that_sleeps_is_not_restarted() -> None:
    rows = Rows(is_asleep=True)
    with pytest.raises(RefusedError, match="suspended"):
        await restart(requests_in(rows))
    assert rows.written == []


async def configure(requests: InstanceRequests) -> Operation:
    return await requests.configure("ada", lambda held: held, reason="asked")


@pytest.mark.parametrize("ask", [restart, configure])
async def test_a_gateway_that_an_unfinished_operation_has_stopped_is_not_started(ask: Ask) -> None:
    """Its state may be on another machine already."""
    rows = Rows(unfinished=OperationKind.RELOCATE)
    with pytest.raises(RefusedError, match=r"begun \(relocate\) of ada has not ended"):
        await ask(requests_in(rows))
    assert rows.written == []


async def test_a_machine_whose_node_knows_no_provider_of_users_gets_none() -> None:
    rows = Rows()
    choice = choice_of(BY_ID["openai"])
    with pytest.raises(RefusedError, match="is older than model providers of users") as refused:
        await requests_in(rows).configure("ada", using(choice), reason="asked")
    assert "hermesops fleet converge ada" in str(refused.value.hint)
    with pytest.raises(RefusedError, match="is older than model providers of users"):
        await requests_in(rows).refuse_provider("ada")  # before the provider is asked
    assert rows.written == []


async def test_nothing_holds_the_end_of_an_agent_up() -> None:
    rows = Rows(unfinished=OperationKind.RELOCATE)
    await terminate(requests_in(rows))
    assert rows.written == ["terminate", "given up"]
