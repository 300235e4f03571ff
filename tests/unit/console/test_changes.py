"""A change runs on after its page was answered, and is left to the workers where the console ends first."""

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest

from hermesops.console.changes import Change, Changes
from hermesops.errors import RefusedError, UnknownOutcomeError
from hermesops.model.ids import InstanceId
from hermesops.model.operation import OperationStatus
from tests.support.fakes.instances import ADA

OPERATION: Any = SimpleNamespace(id="1")


class World:
    """A container whose operations run until they are told to end."""

    def __init__(self) -> None:
        self.faces: list[str] = []
        self.left: list[object] = []
        self.has_begun, self.may_end, self.has_ended = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self.instances = SimpleNamespace(find=lambda _: ADA)
        self.operation_directory = SimpleNamespace(get=lambda _: SimpleNamespace(status=self._status))

    @property
    def _status(self) -> OperationStatus:
        return OperationStatus.DONE if self.has_ended.is_set() else OperationStatus.RUNNING

    def acting_via(self, face: str) -> Any:  # noqa: ANN401 - a context manager
        self.faces.append(face)
        return nullcontext()

    @asynccontextmanager
    async def connect(self) -> AsyncIterator[Any]:
        yield SimpleNamespace(operations=SimpleNamespace(resume=self._resume, leave_unless_held=self.left.append))

    async def _resume(self, _operation: object, *, wait_s: float) -> str:
        assert wait_s > 0
        await self.may_end.wait()
        self.has_ended.set()
        return "done"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def changes(world: World) -> Changes:
    container: Any = world
    return Changes(container)


def change(*, refuses: bool = False, hangs: asyncio.Event | None = None) -> Change:
    """A change; ``hangs`` is set when it hangs while it opens its operation."""

    async def begin(_connected: object, user: str, reason: str) -> Any:  # noqa: ANN401 - an operation
        assert (user, reason) == ("ada", "a test")
        if refuses:
            raise RefusedError("it is suspended")
        if hangs is not None:
            hangs.set()
            await asyncio.Event().wait()
        return OPERATION

    return Change("Restart", ("instance", "restart"), begin)


async def test_a_change_runs_to_its_end_in_the_operators_name_via_the_console(world: World, changes: Changes) -> None:
    assert await changes.open(change(), ADA, "a test") is OPERATION
    assert not world.has_ended.is_set()
    world.may_end.set()
    await world.has_ended.wait()
    assert world.faces == ["console"]
    assert await changes.close() == []
    assert world.left == []


async def test_a_running_operation_is_left_to_the_workers(world: World, changes: Changes) -> None:
    await changes.open(change(), ADA, "a test")
    assert await changes.close() == [OPERATION]
    assert world.left == [OPERATION]
    assert not world.has_ended.is_set()


async def test_a_refusal_opens_nothing(changes: Changes) -> None:
    with pytest.raises(RefusedError, match="it is suspended"):
        await changes.open(change(refuses=True), ADA, "a test")
    assert await changes.close() == []


async def test_where_the_console_ends_while_it_opens_the_outcome_is_unknown(changes: Changes) -> None:
    hangs = asyncio.Event()
    opening = asyncio.ensure_future(changes.open(change(hangs=hangs), ADA, "a test"))
    await hangs.wait()
    assert await changes.close() == []
    with pytest.raises(UnknownOutcomeError, match="may have been opened"):
        await opening


async def test_a_page_of_a_former_instance_never_means_the_users_new_one(world: World, changes: Changes) -> None:
    assert await changes.user_of(ADA) == "ada"
    world.instances = SimpleNamespace(find=lambda _: dataclasses.replace(ADA, id=InstanceId("newer")))
    assert await changes.user_of(ADA) == ADA.id
