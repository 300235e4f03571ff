"""An action runs on after its page was answered, and is left to the workers where the console ends first."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.console.actions.action import About, Action, ActionRequest, Begun, Preview, Subject
from hermesops.console.actions.operations import OperationWork
from hermesops.console.actions.running import RunningActions
from hermesops.errors import RefusedError, UnavailableError, UnknownOutcomeError
from hermesops.model.operation import OperationStatus

OPERATION: Any = SimpleNamespace(id="1", instance_id="ada-id")
ADA = ActionRequest(Subject("ada-id", "ada", "ada", "instances/ada-id"), reason="a test")


class World:
    """A container whose operations run until they are told to end."""

    def __init__(self) -> None:
        self.faces: list[str] = []
        self.left: list[object] = []
        self.has_begun, self.may_end, self.has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.operation_directory = SimpleNamespace(get=lambda _: SimpleNamespace(status=self._status))
        self.asked: list[str] = []
        self.fleet_observation = SimpleNamespace(ask_agents=self._ask)
        self.is_vendor_away = False

    @property
    def _status(self) -> OperationStatus:
        return OperationStatus.DONE if self.has_ended.is_set() else OperationStatus.RUNNING

    def acting_via(self, face: str) -> Any:  # noqa: ANN401 - a context manager
        self.faces.append(face)
        return nullcontext()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        operations = SimpleNamespace(resume=self._resume, leave_unless_held=self.left.append)
        yield SimpleNamespace(operations=operations, container=self)

    async def _ask(self, instance_id: str) -> None:
        self.asked.append(instance_id)
        if self.is_vendor_away:
            raise UnavailableError("JustAVPS does not answer")

    async def _resume(self, _operation: object, *, wait_s: float) -> str:
        assert wait_s > 0
        await self.may_end.wait()
        self.has_ended.set()
        return "done"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def running(world: World) -> RunningActions:
    container: Any = world
    return RunningActions(container)


def action(*, refuses: bool = False, hangs: asyncio.Event | None = None) -> Action:
    """An action; ``hangs`` is set when it hangs while it opens its operation."""

    async def begin(_connected: object, request: ActionRequest) -> Any:  # noqa: ANN401 - an operation
        assert (request.subject.name, request.reason) == ("ada", "a test")
        if refuses:
            raise RefusedError("it is suspended")
        if hangs is not None:
            hangs.set()
            await asyncio.Event().wait()
        return OPERATION

    return Action(About.INSTANCE, "restart", "Restart", ("instance", "restart"), OperationWork(begin))


async def test_an_action_runs_to_its_end_in_the_operators_name_via_the_console(
    world: World, running: RunningActions
) -> None:
    assert await running.begin(action(), ADA) == "operations/1"
    assert not world.has_ended.is_set()
    world.may_end.set()
    await world.has_ended.wait()
    assert world.faces == ["console"]
    assert await running.close() == []
    assert world.left == []


@pytest.mark.parametrize("is_vendor_away", [False, True])
async def test_the_agent_is_asked_once_when_its_operation_has_ended(
    world: World, running: RunningActions, *, is_vendor_away: bool
) -> None:
    world.is_vendor_away = is_vendor_away
    await running.begin(action(), ADA)
    assert world.asked == []
    world.may_end.set()
    await asyncio.gather(*running._running)
    assert world.asked == ["ada-id"]


async def test_a_running_operation_is_left_to_the_workers(world: World, running: RunningActions) -> None:
    await running.begin(action(), ADA)
    assert await running.close() == ["operation 1"]
    assert world.left == [OPERATION]
    assert not world.has_ended.is_set()
    assert world.asked == []


async def test_an_operation_that_has_ended_is_left_to_nobody(world: World, running: RunningActions) -> None:
    await running.begin(action(), ADA)
    world.has_ended.set()
    assert await running.close() == []
    assert world.left == []


async def test_a_refusal_begins_nothing(running: RunningActions) -> None:
    with pytest.raises(RefusedError, match="it is suspended"):
        await running.begin(action(refuses=True), ADA)
    assert await running.close() == []


async def test_where_the_console_ends_while_it_begins_the_outcome_is_unknown(running: RunningActions) -> None:
    hangs = asyncio.Event()
    beginning = asyncio.ensure_future(running.begin(action(hangs=hangs), ADA))
    await hangs.wait()
    assert await running.close() == []
    with pytest.raises(UnknownOutcomeError, match="may have begun"):
        await beginning


class Immediate:
    """Work that has ended when it has begun."""

    async def preview(self, _container: object, _request: ActionRequest) -> Preview:
        return Preview("checked", {})

    async def begin(self, _connected: object, _request: ActionRequest) -> Begun:
        return Begun("rollouts")


async def test_work_without_a_sequel_has_ended_when_it_has_begun(world: World, running: RunningActions) -> None:
    freeze = Action(About.FLEET, "freeze", "Freeze", ("rollout", "freeze"), Immediate())
    assert await running.begin(freeze, ADA) == "rollouts"
    assert await running.close() == []
    assert world.left == []
